"""A kind of draw from outside the tree: how many rows lie in the last cell of a column, and a generator that asks."""

from tasks.records.model.draw_kinds import DrawParts

TALLY = DrawParts(form="tally.form:TallyForm", checks="tally.checks:TallyChecks")
