-- What psql runs when the volume is new. Prefect has a role of its own, which cannot reach the ledger.
\getenv prefect_password PREFECT_DB_PASSWORD
CREATE ROLE prefect LOGIN PASSWORD :'prefect_password';
CREATE DATABASE ledger;
REVOKE ALL ON DATABASE ledger FROM PUBLIC;
CREATE DATABASE prefect OWNER prefect;
