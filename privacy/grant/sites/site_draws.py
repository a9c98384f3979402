"""The part of the grant that draws across sites: what a site sends, and what a coordinator sums."""

from __future__ import annotations

from privacy.federation.counting import CountingPlan
from privacy.federation.plan import FederatedPlan
from privacy.federation.rounds import Call, Collect, Contribution, RoundSum, checked_call
from privacy.federation.summing_plan import SummingPlan
from privacy.grant.arguments.site_arguments import checked_federation
from privacy.grant.durable_draws import DurableDraws
from privacy.grant.exact_types import rebuilt
from privacy.grant.queries.sums import check_statistic
from privacy.grant.sites.count_shares import checked_counting, contribute_counts, sum_counts
from privacy.grant.sites.sum_shares import checked_summing, contribute_sums, sum_sums
from privacy.learning.execution import Execution
from privacy.learning.layout import RowLayout
from privacy.learning.learners import Learner, parameters_of
from privacy.learning.moments import Moments
from privacy.learning.rows import PrivateRows
from privacy.ledger.terms import Charge
from privacy.marginals.counts import PrivateCounts
from privacy.noise.random_bytes import RandomBytes


class FederatedDraws:
    """Draws of a grant across sites; `Grant` is the one that there is."""

    _charge: Charge
    _once: DurableDraws
    _random_bytes: RandomBytes

    def contribute(
        self,
        rows: PrivateRows,
        learner: Learner,
        call: Call,
        *,
        plan: FederatedPlan,
        key: str,
        execution: Execution,
    ) -> Contribution:
        """Make this site's contribution to one attempt of a round of a training across sites; it leaves once.

        Args:
            rows: handle on the site's rows.
            learner: what is trained.
            call: the round, the attempt, and the parameters so far.
            plan: sites, trust, sampling, clipping and noise; the charge holds `plan.record_events`.
            key: what the keys of its draws begin with, unique inside the run.
            execution: device and memory.
        Returns:
            Contribution: for whoever adds up, and for nobody else.
        Raises:
            CannotTrain, ValueError: as for `train`; nothing was drawn.
            GrantExceeded: more attempts than the charge holds.
            LedgerRefusal: this attempt was answered before.
        Privacy: `plan.site_row_event` for whoever sees sums over at least `plan.trust.fewest` sites; by itself a
            contribution has less noise, or none, which is what `plan.trust` says who is trusted with.
        """
        training = checked_federation(_layout(rows), learner, plan, execution, self._charge.request)
        checked = checked_call(call, training.plan.rounds, parameters_of(training.learner))
        from privacy.grant.sites.training_shares import contribute  # torch takes seconds to import

        return contribute(rows, training, checked, key=key, once=self._once, source=self._random_bytes)

    def sum_round(
        self,
        layout: RowLayout,
        learner: Learner,
        number: int,
        collect: Collect,
        *,
        attempt: str,
        plan: FederatedPlan,
        key: str,
        execution: Execution,
    ) -> RoundSum:
        """Collect one attempt of a round from the sites and release its noisy sum, or replay the round's sum.

        Args:
            layout: how rows lie in vectors at every site.
            learner: what is trained.
            number: the round, from 0.
            collect: makes the attempt, unless the round was summed before.
            attempt: names the attempt; never used before.
            plan, key, execution: as for `contribute`; the charge holds `plan.person_events`.
        Returns:
            RoundSum: written down durably with its event.
        Raises:
            AttemptLost: fewer sites answered than the plan needs; nothing was summed, the attempt is paid.
            AttemptBroken: the way to the sites broke down; likewise, and the run has to be resumed.
            GrantExceeded: more attempts were lost than the reserve pays for.
            CannotTrain, LedgerRefusal: as for `train`.
        Privacy: `plan.person_event`. Where the server adds the noise it is drawn here, on sums that `collect` brings.
        """
        own = rebuilt("layout", layout, (RowLayout,))
        training = checked_federation(own, learner, plan, execution, self._charge.request)
        from privacy.grant.sites.training_shares import sum_round  # torch takes seconds to import

        return sum_round(training, number, collect, attempt, key=key, once=self._once, source=self._random_bytes)

    def contribute_counts(self, counts: PrivateCounts, call: Call, *, plan: CountingPlan, key: str) -> Contribution:
        """Make this site's counts of one table across sites; they leave once. As `contribute`.

        Args:
            counts: handle on the site's marginal of the round's columns.
            call: the round and the attempt; no parameters.
            plan: tables, sites, trust and noise; the charge holds `plan.record_events`.
            key: what the keys of its draws begin with, unique inside the run.
        """
        rebuilt("counts", counts, (PrivateCounts,))
        own = checked_counting(plan, self._charge.request)
        checked = checked_call(call, own.rounds, 0)
        return contribute_counts(counts, own, checked, key=key, once=self._once, source=self._random_bytes)

    def sum_counts(
        self,
        shape: tuple[int, ...],
        number: int,
        collect: Collect,
        *,
        attempt: str,
        plan: CountingPlan,
        key: str,
    ) -> RoundSum:
        """Collect one table from the sites and release its noisy sum, or replay it. As `sum_round`.

        Args:
            shape: cells along each of its columns.
            number, collect, attempt, plan, key: as for `sum_round`; the charge holds `plan.person_events`.
        Returns:
            RoundSum: counts in units of 2^-fine_bits rows.
        """
        own = checked_counting(plan, self._charge.request)
        return sum_counts(own, shape, number, collect, attempt, key=key, once=self._once, source=self._random_bytes)

    def contribute_sums(
        self, rows: PrivateRows, statistic: Moments, call: Call, *, plan: SummingPlan, key: str
    ) -> Contribution:
        """Make this site's sums of bounded vectors over its rows; they leave once. As `contribute`.

        Args:
            rows: handle on the site's rows.
            statistic: what is added up; of the bounds that the plan has for the round.
            call: the round and the attempt; no parameters.
            plan: bounds, sites, trust and noise; the charge holds `plan.record_events`.
            key: what the keys of its draws begin with, unique inside the run.
        """
        layout = _layout(rows)
        own, checked = _statistic(statistic, layout), checked_summing(plan, self._charge.request)
        asked = checked_call(call, checked.rounds, 0)
        return contribute_sums(rows, own, layout, checked, asked, key=key, once=self._once, source=self._random_bytes)

    def sum_sums(
        self,
        layout: RowLayout,
        statistic: Moments,
        number: int,
        collect: Collect,
        *,
        attempt: str,
        plan: SummingPlan,
        key: str,
    ) -> RoundSum:
        """Collect one sum of bounded vectors from the sites and release it, or replay it. As `sum_round`.

        Args:
            layout: how rows lie in vectors at every site.
            statistic: what is added up, as for `contribute_sums`.
            number, collect, attempt, plan, key: as for `sum_round`; the charge holds `plan.person_events`.
        Returns:
            RoundSum: in sent units (`SummingPlan.unit`).
        """
        whole = rebuilt("layout", layout, (RowLayout,))
        own, checked = _statistic(statistic, whole), checked_summing(plan, self._charge.request)
        return sum_sums(
            checked, own, whole, number, collect, attempt, key=key, once=self._once, source=self._random_bytes
        )


def _layout(rows: PrivateRows) -> RowLayout:
    own: PrivateRows = rebuilt("rows", rows, (PrivateRows,))
    return own.layout


def _statistic(statistic: Moments, layout: RowLayout) -> Moments:
    own: Moments = rebuilt("statistic", statistic, (Moments,))
    check_statistic(own, layout)
    return own
