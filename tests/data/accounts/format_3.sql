SELECT pg_catalog.set_config('search_path', '', false);
CREATE SCHEMA accounts;
CREATE TABLE accounts.accounts (
    id bigint NOT NULL,
    name text NOT NULL,
    folded text NOT NULL,
    password text NOT NULL,
    created_at bigint NOT NULL
);
ALTER TABLE accounts.accounts ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME accounts.accounts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE accounts.format (
    version integer NOT NULL,
    era bigint NOT NULL
);
CREATE TABLE accounts.keys (
    id bigint NOT NULL,
    hash bytea NOT NULL,
    name text NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint,
    account bigint,
    prefix text,
    used_at bigint,
    rate bigint,
    burst bigint,
    requests_per_day bigint,
    bytes_per_day bigint
);
ALTER TABLE accounts.keys ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME accounts.keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE accounts.keys_version (
    id integer NOT NULL,
    version bigint NOT NULL,
    CONSTRAINT keys_version_id_check CHECK ((id = 1))
);
CREATE TABLE accounts.sessions (
    id bigint NOT NULL,
    hash bytea NOT NULL,
    account bigint NOT NULL,
    client text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
ALTER TABLE accounts.sessions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME accounts.sessions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE accounts.settings (
    name text NOT NULL,
    value text NOT NULL
);
INSERT INTO accounts.format VALUES
	(3, -2441978205810930027);
INSERT INTO accounts.keys_version VALUES
	(1, 0);
SELECT pg_catalog.setval('accounts.accounts_id_seq', 1, false);
SELECT pg_catalog.setval('accounts.keys_id_seq', 1, false);
SELECT pg_catalog.setval('accounts.sessions_id_seq', 1, false);
ALTER TABLE ONLY accounts.accounts
    ADD CONSTRAINT accounts_folded_key UNIQUE (folded);
ALTER TABLE ONLY accounts.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY accounts.format
    ADD CONSTRAINT format_pkey PRIMARY KEY (version);
ALTER TABLE ONLY accounts.keys
    ADD CONSTRAINT keys_hash_key UNIQUE (hash);
ALTER TABLE ONLY accounts.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY accounts.keys_version
    ADD CONSTRAINT keys_version_pkey PRIMARY KEY (id);
ALTER TABLE ONLY accounts.sessions
    ADD CONSTRAINT sessions_hash_key UNIQUE (hash);
ALTER TABLE ONLY accounts.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY accounts.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (name);
CREATE INDEX keys_of_account ON accounts.keys USING btree (account, id);
CREATE INDEX sessions_by_end ON accounts.sessions USING btree (expires_at);
CREATE INDEX sessions_of_account ON accounts.sessions USING btree (account);
ALTER TABLE ONLY accounts.keys
    ADD CONSTRAINT keys_account_fkey FOREIGN KEY (account) REFERENCES accounts.accounts(id);
ALTER TABLE ONLY accounts.sessions
    ADD CONSTRAINT sessions_account_fkey FOREIGN KEY (account) REFERENCES accounts.accounts(id);
