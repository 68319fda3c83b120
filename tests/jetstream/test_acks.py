"""Where a delivery stands, read from its reply subject."""

from __future__ import annotations

import pytest

from pyoco_server.jetstream.headers import DeliveryPosition, position_of

FORMS = {
    "nine parts": b"$JS.ACK.WORK.pyoco_workers_default.3.41.17.1700000000000000000.5",
    "eleven parts": b"$JS.ACK.hub.ACCHASH.WORK.pyoco_workers_default.3.41.17.1700000000000000000.5",
    "twelve parts": b"$JS.ACK._.ACCHASH.WORK.pyoco_workers_default.3.41.17.1700000000000000000.5.token",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_reply_subject_says_the_same(form: str) -> None:
    assert position_of(FORMS[form]) == DeliveryPosition(
        delivered=3, stream_seq=41, consumer_seq=17, stored_at=b"1700000000000000000"
    )
