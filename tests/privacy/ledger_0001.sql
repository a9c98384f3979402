-- A ledger as Sudare 0.1 (commit 2178333) wrote it: SQLite's dump of its file.
BEGIN TRANSACTION;
CREATE TABLE accounts (
	name VARCHAR(200) NOT NULL, 
	terms TEXT NOT NULL, 
	cap BIGINT NOT NULL, 
	spent BIGINT NOT NULL, 
	status VARCHAR(10) NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "accounts" VALUES('people-2024','{"adjacency":"add_remove","block":"2024","calculus":{"kind":"pure"},"delta":0,"epsilon":3000000000000,"name":"people-2024","population":"people","unit":"row"}',3000000000000,1000000000000,'open');
INSERT INTO "accounts" VALUES('people-2023','{"adjacency":"add_remove","block":"2023","calculus":{"kind":"pure"},"delta":0,"epsilon":3000000000000,"name":"people-2023","population":"people","unit":"row"}',3000000000000,0,'closed');
CREATE TABLE charges (
	run_key VARCHAR(200) NOT NULL, 
	number INTEGER NOT NULL, 
	account VARCHAR(200) NOT NULL, 
	request TEXT NOT NULL, 
	amount BIGINT NOT NULL, 
	status VARCHAR(10) NOT NULL, 
	security VARCHAR(10), 
	PRIMARY KEY (run_key), 
	UNIQUE (number), 
	FOREIGN KEY(account) REFERENCES accounts (name)
);
INSERT INTO "charges" VALUES('run-1',1,'people-2024','{"account":"people-2024","adjacency":"add_remove","contract_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","delta":0,"epsilon":1000000000000,"events":[{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]},{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]}],"release":"people-tables","rows_per_unit":1,"run_key":"run-1","snapshot_hash":"870accb9f960c5e22de4af7984d322fdb120000812e3b3ff5139d89bee6ff4b1","source":"file:people.parquet","spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","unit":"row"}',1000000000000,'published','csprng');
INSERT INTO "charges" VALUES('run-2',2,'people-2024','{"account":"people-2024","adjacency":"add_remove","contract_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","delta":0,"epsilon":1000000000000,"events":[{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]}],"release":"people-tables","rows_per_unit":1,"run_key":"run-2","snapshot_hash":"870accb9f960c5e22de4af7984d322fdb120000812e3b3ff5139d89bee6ff4b1","source":"file:people.parquet","spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","unit":"row"}',500000000000,'returned',NULL);
CREATE TABLE draws (
	run_key VARCHAR(200) NOT NULL, 
	"key" VARCHAR(200) NOT NULL, 
	number INTEGER NOT NULL, 
	event TEXT NOT NULL, 
	cost BIGINT NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	PRIMARY KEY (run_key, "key"), 
	UNIQUE (run_key, number), 
	FOREIGN KEY(run_key) REFERENCES charges (run_key)
);
INSERT INTO "draws" VALUES('run-1','a',0,'{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]}',500000000000,'81a6968ceeb7275a5e02d54ca988f7cd8586d55e6d51bd38b2f6682f65ddd83d');
INSERT INTO "draws" VALUES('run-1','b',1,'{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]}',500000000000,'ede22792a3e14ffece34ddf6b9eddcdf34afbf22c72a3ca54fc28b92b6ef4eef');
CREATE TABLE journal (
	sequence INTEGER NOT NULL, 
	previous VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	kind VARCHAR(40) NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (previous), 
	UNIQUE (hash)
);
INSERT INTO "journal" VALUES(0,'0000000000000000000000000000000000000000000000000000000000000000','eb39d44ec4695503c62987b9ff2efca6ea19775c33717def350690f2f99687b4','ledger_created','2026-11-21T04:48:03Z','{"id":"e41d46050bfb93c653a7716c62c150e2","schema_version":"1"}');
INSERT INTO "journal" VALUES(1,'eb39d44ec4695503c62987b9ff2efca6ea19775c33717def350690f2f99687b4','b2439a2720e5f061fed3b41db2611cdbb1dd5763c0e423089f01f9f7d3030504','account_opened','2026-11-21T04:48:03Z','{"adjacency":"add_remove","block":"2024","calculus":{"kind":"pure"},"cap":3000000000000,"delta":0,"epsilon":3000000000000,"name":"people-2024","population":"people","unit":"row"}');
INSERT INTO "journal" VALUES(2,'b2439a2720e5f061fed3b41db2611cdbb1dd5763c0e423089f01f9f7d3030504','048f71fe86b9f4dd0d27dbc9d6c95f17df93c27305fa1e394b4b3e02710b6646','source_bound','2026-11-21T04:48:03Z','{"block":"2024","population":"people","source":"file:people.parquet"}');
INSERT INTO "journal" VALUES(3,'048f71fe86b9f4dd0d27dbc9d6c95f17df93c27305fa1e394b4b3e02710b6646','540051ae31596354a75d0d6d9ea18acbf53040ecaa512c53b854c46f68b0cdc1','charge_reserved','2026-11-21T04:48:03Z','{"account":"people-2024","adjacency":"add_remove","after":1000000000000,"amount":1000000000000,"before":0,"contract_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","delta":0,"epsilon":1000000000000,"events":[{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]},{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]}],"release":"people-tables","rows_per_unit":1,"run_key":"run-1","snapshot_hash":"870accb9f960c5e22de4af7984d322fdb120000812e3b3ff5139d89bee6ff4b1","spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","unit":"row"}');
INSERT INTO "journal" VALUES(4,'540051ae31596354a75d0d6d9ea18acbf53040ecaa512c53b854c46f68b0cdc1','292f4c9af369326800da7ba6beab23e48b14903d2e4c22c6b0b6e19d03eb60a7','grant_opened','2026-11-21T04:48:03Z','{"run_key":"run-1","security":"csprng"}');
INSERT INTO "journal" VALUES(5,'292f4c9af369326800da7ba6beab23e48b14903d2e4c22c6b0b6e19d03eb60a7','53369ae4249af8da1022c342f4555f534271e1a53cfad23a43f875d9fca7d1e9','noise_drawn','2026-11-21T04:48:03Z','{"cost":500000000000,"event":{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]},"key":"a","number":0,"run_key":"run-1","sha256":"81a6968ceeb7275a5e02d54ca988f7cd8586d55e6d51bd38b2f6682f65ddd83d"}');
INSERT INTO "journal" VALUES(6,'53369ae4249af8da1022c342f4555f534271e1a53cfad23a43f875d9fca7d1e9','52ec3b6a54261aa4c2dabe7d7f8a1626896fd7560af614f7011d7dc68e857e4d','noise_drawn','2026-11-21T04:48:03Z','{"cost":500000000000,"event":{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]},"key":"b","number":1,"run_key":"run-1","sha256":"ede22792a3e14ffece34ddf6b9eddcdf34afbf22c72a3ca54fc28b92b6ef4eef"}');
INSERT INTO "journal" VALUES(7,'52ec3b6a54261aa4c2dabe7d7f8a1626896fd7560af614f7011d7dc68e857e4d','36cf9360e7bd1a30c10a0ee919e1584a994a05422fafae05d431dd5dc439bf37','version_published','2026-11-21T04:48:03Z','{"manifest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","number":1,"release":"people-tables","run_key":"run-1"}');
INSERT INTO "journal" VALUES(8,'36cf9360e7bd1a30c10a0ee919e1584a994a05422fafae05d431dd5dc439bf37','bde8062749c738e3dba1bbcc98479a23630c775384450a2fd2eee68e3669c5e1','charge_reserved','2026-11-21T04:48:03Z','{"account":"people-2024","adjacency":"add_remove","after":1500000000000,"amount":500000000000,"before":1000000000000,"contract_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","delta":0,"epsilon":1000000000000,"events":[{"inverse_scale":"1/2","kind":"discrete_laplace","moves":[1]}],"release":"people-tables","rows_per_unit":1,"run_key":"run-2","snapshot_hash":"870accb9f960c5e22de4af7984d322fdb120000812e3b3ff5139d89bee6ff4b1","spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","unit":"row"}');
INSERT INTO "journal" VALUES(9,'bde8062749c738e3dba1bbcc98479a23630c775384450a2fd2eee68e3669c5e1','37a61b45ca66e57525d7527eed3c2b4dee333e2f06f0e0a3dced4a756dc8c9bd','charge_returned','2026-11-21T04:48:03Z','{"account":"people-2024","amount":500000000000,"run_key":"run-2"}');
INSERT INTO "journal" VALUES(10,'37a61b45ca66e57525d7527eed3c2b4dee333e2f06f0e0a3dced4a756dc8c9bd','86a0e6c4a254a907cb99faffbedfd9aeebd13ae0f095fb64f3e118a90792014d','gate_failed','2026-11-21T04:48:03Z','{"account":"people-2024","contract_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","gates":["domain:age"],"release":"people-tables","spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "journal" VALUES(11,'86a0e6c4a254a907cb99faffbedfd9aeebd13ae0f095fb64f3e118a90792014d','07aec332ff39302177b0c9eb453c3f59add05cc835277873f42c7d8b7538336e','account_opened','2026-11-21T04:48:03Z','{"adjacency":"add_remove","block":"2023","calculus":{"kind":"pure"},"cap":3000000000000,"delta":0,"epsilon":3000000000000,"name":"people-2023","population":"people","unit":"row"}');
INSERT INTO "journal" VALUES(12,'07aec332ff39302177b0c9eb453c3f59add05cc835277873f42c7d8b7538336e','d1872d64011f4eae9ed22eb53a44fe569fbe364f51e4b6bab2361dbbaca59ad6','account_closed','2026-11-21T04:48:03Z','{"name":"people-2023","spent":0}');
CREATE TABLE meta (
	"key" VARCHAR(40) NOT NULL, 
	value TEXT, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('schema_version','1');
CREATE TABLE sources (
	source TEXT NOT NULL, 
	population VARCHAR(200) NOT NULL, 
	block VARCHAR(200) NOT NULL, 
	PRIMARY KEY (source)
);
INSERT INTO "sources" VALUES('file:people.parquet','people','2024');
CREATE TABLE versions (
	release VARCHAR(200) NOT NULL, 
	number INTEGER NOT NULL, 
	run_key VARCHAR(200) NOT NULL, 
	status VARCHAR(10) NOT NULL, 
	manifest VARCHAR(64), 
	PRIMARY KEY (release, number), 
	UNIQUE (run_key), 
	FOREIGN KEY(run_key) REFERENCES charges (run_key)
);
INSERT INTO "versions" VALUES('people-tables',1,'run-1','published','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee');
CREATE INDEX ix_charges_account ON charges (account);
CREATE TRIGGER journal_refuses_UPDATE BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_refuses_DELETE BEFORE DELETE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
COMMIT;
