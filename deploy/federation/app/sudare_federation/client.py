"""At a site: hands the coordinator's messages to the site's Sudare, and its answers back.

What it is given of the site are two Unix sockets. A query goes to the first and its answer back as it is; there the
site gives no contribution that is to be masked. A message of training is a stage of SecAgg+, whose masks are put on
here, before anything is sent; its handler alone asks at the second.
"""

from __future__ import annotations

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.compat.common import recorddict_compat as compat

from sudare_federation.masks import put_in_place
from sudare_federation.wire import ask_site, packed, unpacked

put_in_place()
app = ClientApp(mods=[secaggplus_mod])
RECORD = "sudare"
CALL = ("number", "attempt", "spec", "contract", "plan")


@app.query()
def query(message: Message, context: Context) -> Message:
    """Hand a message over; the answer is the site's."""
    answer = ask_site(str(context.node_config["socket"]), message.content[RECORD]["message"])
    return Message(RecordDict({RECORD: ConfigRecord({"message": answer})}), reply_to=message)


@app.train()
def contribute(message: Message, context: Context) -> Message:
    """Get the site's contribution as whole numbers, for the protocol to mask.

    Raises:
        RuntimeError: the site refuses, and the protocol goes on without it; or the message passed by the protocol:
            "train.default" reaches this handler too, but Flower's SecAgg+ looks at messages of type "train" alone.
    """
    if message.metadata.message_type != MessageType.TRAIN:
        raise RuntimeError("a message of training that secure aggregation did not see")
    told = compat.recorddict_to_fitins(message.content, keep_input=True)
    header = {"op": "round", **{name: told.config.get(name) for name in CALL}}
    answer, body = unpacked(ask_site(str(context.node_config["masked"]), packed(header, told.parameters.tensors[0])))
    if "refused" in answer:
        raise RuntimeError("the site does not contribute")
    residues = np.frombuffer(body, dtype="<u4").astype(np.int64)
    steps = ((residues + 2**31) & (2**32 - 1)) - 2**31
    if int(np.abs(steps).max(initial=0)) > answer["largest"]:
        raise RuntimeError("a contribution leaves the range of the protocol")
    result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([steps.astype(np.float64)]), 1, {})
    return Message(compat.fitres_to_recorddict(result, keep_input=True), reply_to=message)
