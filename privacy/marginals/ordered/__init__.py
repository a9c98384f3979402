"""Range queries over ordered columns, measured together with the residuals of the other columns."""
