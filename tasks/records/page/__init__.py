"""record.html: the record for people, in the languages there are.

Where to look:
    page                                                        the page as a whole
    table_views, dense_view, sparse_view, suppression_view      what is shown of tables of counts
    statistics_view, synthetic_view                             what is shown of other products
    record.html.j2, and KIND.html.j2 that extends it            the page of a kind of product
    tasks.records.charts                                        pictures
    words, language, *.json                                     sentences and their translations
    style, *.css                                                colours and letters, the site's and the label's too
"""
