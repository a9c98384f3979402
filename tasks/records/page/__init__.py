"""record.html: the record for people, in the languages there are.

Where to look:
    page                                                        the page as a whole
    table_views, dense_view, sparse_view, suppression_view, synthetic_view   what is shown of each product
    lineage_graph, and tasks.records.charts                     pictures
    words, language, *.json                                     sentences and their translations
    style, *.css                                                colours and letters, the site's and the label's too
"""
