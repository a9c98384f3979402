"""Certificates for links on loopback."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tasks.federation.flower import Certificates


def loopback_certificates(folder: Path, *, name: str | None = None) -> Certificates:
    """A certificate for this machine's number, or for a name and nothing else, of an authority of its own."""
    own = x509.IPAddress(ip_address("127.0.0.1")) if name is None else x509.DNSName(name)
    today, names = datetime.now(UTC), x509.SubjectAlternativeName([own])
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority")])
    owner = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name or "127.0.0.1")])
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def signed(subject: x509.Name, public_key: ec.EllipticCurvePublicKey, *, ca: bool) -> bytes:
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - timedelta(days=1))
            .not_valid_after(today + timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(names, critical=False)
        )
        return built.sign(authority_key, hashes.SHA256()).public_bytes(Encoding.PEM)

    paths = [folder / name for name in ("ca.pem", "server.pem", "server.key")]
    paths[0].write_bytes(signed(issuer, authority_key.public_key(), ca=True))
    paths[1].write_bytes(signed(owner, key.public_key(), ca=False))
    paths[2].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return Certificates(*paths)
