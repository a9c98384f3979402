"""A kind of product from outside the tree: one noisy count of rows for each cell of a column."""

from contracts.release.product_kinds import ProductParts

ROW_COUNTS = ProductParts(
    spec="row_counts.spec:RowCountsProduct",
    check="row_counts.making:findings",
    planning="row_counts.making:RowCountsKind",
    making="row_counts.making:RowCountsKind",
    view="row_counts.making:RowCountsView",
)
