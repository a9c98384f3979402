"""record.html: the record for people, in the languages there are.

Where to look:
    page                                                  the page as a whole
    views, tables, sparse_tables, suppressed, synthetic   what is shown of each product
    charts, drawing, map, pair_map, error_plot, contact_sheet, lineage_graph   pictures
    words, language, *.json                               sentences and their translations
    style, *.css                                          colours and letters, the site's and the label's too
"""
