"""A signing key in a token that speaks PKCS#11: a hardware security module, a smart card, SoftHSM.

The private key is made in the token and never leaves it: `sign` sends the message and gets the signature (CKM_EDDSA).
Needs the extra `pkcs11` (python-pkcs11) and the token's own library. Tried with SoftHSM 2.6.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tasks.storage.workspace.keys import KeyKind, KeyPlace, WorkspaceRefused, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

_ED25519: Final = "1.3.101.112"
_POINT: Final = 34
"""Bytes of an Ed25519 point as PKCS#11 gives it: an OCTET STRING (2 bytes) around the key (32)."""


class TokenKey:
    """A key of an open session.

    Args:
        place: where it lies; errors name it.
        session: logged in.
        private: the key's handle in the token.
        public: the public key, 32 bytes.
    """

    def __init__(self, place: KeyPlace, session: Any, private: Any, public: bytes) -> None:
        self._place, self._session, self._private, self._public = place, session, private, public

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """Return the signature, 64 bytes.

        Raises:
            WorkspaceRefused: the token does not answer any more.
        """
        from pkcs11 import Mechanism

        with _explained(self._place):
            return bytes(self._private.sign(message, mechanism=Mechanism.EDDSA))


def open_key(place: KeyPlace, secret: str | None) -> TokenKey:
    """Log in to the token and find the key by its label.

    Raises:
        WorkspaceRefused: no library, no token, no such key, or a wrong PIN.
    """
    session, label = _session(place, secret, writing=False), place.value("key")
    from pkcs11 import Attribute, ObjectClass  # after the session, which tells where the package is missing

    with _explained(place):
        private = session.get_key(object_class=ObjectClass.PRIVATE_KEY, label=label)
        public = session.get_key(object_class=ObjectClass.PUBLIC_KEY, label=label)
        return TokenKey(place, session, private, _public(place, bytes(public[Attribute.EC_POINT])))


def create_key(place: KeyPlace, secret: str | None) -> TokenKey:
    """Make a key pair in the token, under a label that it does not have yet.

    Raises:
        WorkspaceRefused: it has a key of this label, or cannot make one.
    """
    session, label = _session(place, secret, writing=True), place.value("key")
    from pkcs11 import Attribute, KeyType, Mechanism, ObjectClass
    from pkcs11.util.ec import encode_named_curve_parameters

    with _explained(place):
        if list(session.get_objects({Attribute.CLASS: ObjectClass.PRIVATE_KEY, Attribute.LABEL: label})):
            allowed = "a label that the token does not have"
            raise refusal(
                _where(place), "signer.key", f"a key {label!r} already", allowed, "name another: signer.key"
            )
        curve = {Attribute.EC_PARAMS: encode_named_curve_parameters(_ED25519)}
        domain = session.create_domain_parameters(KeyType.EC_EDWARDS, curve, local=True)
        hidden = {Attribute.SENSITIVE: True, Attribute.EXTRACTABLE: False}
        public, private = domain.generate_keypair(
            mechanism=Mechanism.EC_EDWARDS_KEY_PAIR_GEN, store=True, label=label, private_template=hidden
        )
        return TokenKey(place, session, private, _public(place, bytes(public[Attribute.EC_POINT])))


def _session(place: KeyPlace, secret: str | None, *, writing: bool) -> Any:
    """Open a session with the token that sudare.toml names."""
    try:
        import pkcs11
    except ImportError:
        allowed, remedy = "the package python-pkcs11", "pip install 'sudare[pkcs11]'"
        raise refusal(
            str(place.settings), "signer.kind", "a package that is not installed", allowed, remedy
        ) from None
    library, label = place.value("library"), place.value("token")
    with _explained(place):
        token = pkcs11.lib(library).get_token(token_label=label)
        try:
            return token.open(rw=writing, user_pin=secret)
        except pkcs11.exceptions.UserAlreadyLoggedIn:  # a token knows one login a process, for all sessions
            return token.open(rw=writing)


@contextmanager
def _explained(place: KeyPlace) -> Iterator[None]:
    """Say in our words what a token refuses; its own texts may repeat what was sent."""
    from pkcs11 import exceptions as wrong

    try:
        yield
    except WorkspaceRefused:
        raise
    except wrong.PKCS11Error as error:
        field, found, allowed, remedy = _words(error, place)
        raise refusal(_where(place), field, found, allowed, remedy) from None


def _words(error: Exception, place: KeyPlace) -> tuple[str, str, str, str]:
    from pkcs11 import exceptions as wrong

    again = "then give the command again"
    if isinstance(error, wrong.PinIncorrect | wrong.PinLenRange | wrong.PinInvalid):
        remedy = f"give the right one at the terminal or in {place.secret_env}; tokens lock after a few wrong ones"
        return "PIN", "a PIN that the token refuses", "the token's user PIN", remedy
    if isinstance(error, wrong.PinLocked):
        return "PIN", "a locked PIN", "a PIN that still opens it", "have it unlocked with the token's own tool"
    if isinstance(error, wrong.NoSuchToken | wrong.TokenNotPresent | wrong.DeviceRemoved | wrong.TokenNotRecognised):
        found, allowed = "no such token", f"a token with the label {place.values.get('token', '')!r}"
        return "signer.token", found, allowed, f"put it in, or correct the label; {again}"
    if isinstance(error, wrong.NoSuchKey):
        found, allowed = "no such key in the token", "the label of an Ed25519 key pair"
        return "signer.key", found, allowed, "correct the label, or make one: sudare keys create"
    if type(error) is wrong.PKCS11Error:  # the binding's own: the library could not be loaded
        found, allowed = "a library that cannot be loaded", "the PKCS#11 library of the token, a .so file"
        return "signer.library", found, allowed, f"install it, or correct the path; {again}"
    return "token", type(error).__name__, "a token that signs with Ed25519 (CKM_EDDSA)", f"look at the token; {again}"


def _public(place: KeyPlace, point: bytes) -> bytes:
    if len(point) != _POINT or point[:2] != b"\x04\x20":
        raise refusal(_where(place), "signer.key", "a key of another kind", "an Ed25519 key", "name another label")
    return point[2:]


def _where(place: KeyPlace) -> str:
    return f"{place.values.get('library', '')}, token {place.values.get('token', '')}"


KIND: Final = KeyKind(open_key, create_key, "PIN of the token")
