-- What psql runs when the volume is new. Ledger and Prefect have a role each, which owns its database, cannot reach the
-- other's, and is no superuser; the superuser is for upgrades and nobody's service.
\getenv ledger_password SUDARE_DB_PASSWORD
\getenv prefect_password PREFECT_DB_PASSWORD
CREATE ROLE ledger LOGIN PASSWORD :'ledger_password';
CREATE ROLE prefect LOGIN PASSWORD :'prefect_password';
CREATE DATABASE ledger OWNER ledger;
CREATE DATABASE prefect OWNER prefect;
REVOKE ALL ON DATABASE ledger FROM PUBLIC;
REVOKE ALL ON DATABASE prefect FROM PUBLIC;
