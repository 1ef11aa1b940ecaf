SELECT pg_catalog.set_config('search_path', '', false);
CREATE SCHEMA inference;
CREATE TABLE inference.baselines (
    topic_id bigint NOT NULL,
    median double precision NOT NULL,
    spread double precision NOT NULL
);
CREATE TABLE inference.bundles (
    topic_id bigint NOT NULL,
    nonce bigint NOT NULL,
    record text NOT NULL COLLATE pg_catalog."C",
    shares text NOT NULL COLLATE pg_catalog."C",
    intervals text NOT NULL COLLATE pg_catalog."C",
    resistant text COLLATE pg_catalog."C",
    signed text COLLATE pg_catalog."C",
    signed_intervals text COLLATE pg_catalog."C",
    pairs bytea,
    resistant_pairs bytea
);
CREATE TABLE inference.chain (
    id bigint NOT NULL,
    genesis_at bigint NOT NULL,
    block_micros bigint NOT NULL,
    newest_deleted bigint DEFAULT 0 NOT NULL,
    CONSTRAINT chain_id_check CHECK ((id = 1))
);
CREATE TABLE inference.counters (
    topic_id bigint NOT NULL,
    nonce bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
);
CREATE TABLE inference.epochs (
    topic_id bigint NOT NULL,
    nonce bigint NOT NULL,
    state bigint NOT NULL,
    opened_at bigint NOT NULL,
    closed_at bigint,
    input_at bigint,
    input_value double precision,
    truth text COLLATE pg_catalog."C",
    combined_loss double precision,
    naive_loss double precision,
    summary text COLLATE pg_catalog."C",
    n_bytes bigint DEFAULT 0 NOT NULL,
    is_thin bigint DEFAULT 0 NOT NULL
);
CREATE TABLE inference.format (
    version integer NOT NULL,
    era bigint NOT NULL
);
CREATE TABLE inference.holdings (
    topic_id bigint NOT NULL,
    n_epochs bigint NOT NULL,
    n_bytes bigint NOT NULL,
    n_full_bytes bigint NOT NULL
);
CREATE TABLE inference.labels (
    topic_id bigint NOT NULL,
    nonce bigint NOT NULL,
    label text NOT NULL COLLATE pg_catalog."C",
    label_id bigint NOT NULL
);
CREATE TABLE inference.learned (
    topic_id bigint NOT NULL,
    stamp bigint NOT NULL,
    record text NOT NULL COLLATE pg_catalog."C",
    regrets bytea NOT NULL,
    past bytea NOT NULL
);
CREATE TABLE inference.losses (
    topic_id bigint NOT NULL,
    nonce bigint NOT NULL,
    record text NOT NULL COLLATE pg_catalog."C",
    pairs bytea
);
CREATE TABLE inference.snapshots (
    topic_id bigint NOT NULL,
    nonce bigint NOT NULL,
    record text NOT NULL COLLATE pg_catalog."C",
    regrets bytea NOT NULL,
    past bytea NOT NULL
);
CREATE TABLE inference.submissions (
    topic_id bigint NOT NULL,
    nonce bigint NOT NULL,
    worker text NOT NULL COLLATE pg_catalog."C",
    received_at bigint NOT NULL,
    record text NOT NULL COLLATE pg_catalog."C",
    trusted bigint NOT NULL,
    forecast text COLLATE pg_catalog."C"
);
CREATE TABLE inference.topics (
    id bigint NOT NULL,
    record text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE inference.versions (
    topic_id bigint NOT NULL,
    version bigint NOT NULL
);
INSERT INTO inference.baselines VALUES
	(1, 2.5, 0.7500000000000001);
INSERT INTO inference.bundles VALUES
	(1, 1, '{"network_inferences":{"topic_id":"1","nonce":"1","combined_value":[{"label_id":1,"label_name":"y","value":"2.25"}],"inferer_values":[{"worker":"allo1a","values":[{"label_id":1,"label_name":"y","value":"1.5"}]},{"worker":"allo1b","values":[{"label_id":1,"label_name":"y","value":"3"}]}],"forecaster_values":[],"naive_value":[{"label_id":1,"label_name":"y","value":"2.25"}],"one_out_inferer_values":[{"withheld_inferer":"allo1a","combined_inference":[{"label_id":1,"label_name":"y","value":"3"}]},{"withheld_inferer":"allo1b","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5"}]}],"one_out_forecaster_values":[],"one_in_forecaster_values":[],"one_out_inferer_forecaster_values":[]},"inference_block_height":"1"}', '{"inferer":{"allo1a":"0.5","allo1b":"0.5"},"forecaster":{}}', '[{"label":"y","values":["1.5","1.5","2.25","3","3"]}]', NULL, NULL, NULL, NULL, NULL),
	(1, 13, '{"network_inferences":{"topic_id":"1","nonce":"13","combined_value":[{"label_id":1,"label_name":"y","value":"1.530678091239745"}],"inferer_values":[{"worker":"allo1a","values":[{"label_id":1,"label_name":"y","value":"1.5"}]},{"worker":"allo1b","values":[{"label_id":1,"label_name":"y","value":"3"}]}],"forecaster_values":[{"worker":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","values":[{"label_id":1,"label_name":"y","value":"1.5000000187751972"}]},{"worker":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","values":[{"label_id":1,"label_name":"y","value":"1.5000000187751972"}]},{"worker":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","values":[{"label_id":1,"label_name":"y","value":"1.5000000187751972"}]},{"worker":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","values":[{"label_id":1,"label_name":"y","value":"1.5000000187751972"}]}],"naive_value":[{"label_id":1,"label_name":"y","value":"1.538500525439837"}],"one_out_inferer_values":[{"withheld_inferer":"allo1a","combined_inference":[{"label_id":1,"label_name":"y","value":"2.999999999999999"}]},{"withheld_inferer":"allo1b","combined_inference":[{"label_id":1,"label_name":"y","value":"1.4999999999999996"}]}],"one_out_forecaster_values":[{"withheld_forecaster":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","combined_inference":[{"label_id":1,"label_name":"y","value":"1.8000000112651182"}]},{"withheld_forecaster":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","combined_inference":[{"label_id":1,"label_name":"y","value":"1.8000000112651182"}]},{"withheld_forecaster":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","combined_inference":[{"label_id":1,"label_name":"y","value":"1.8000000112651182"}]},{"withheld_forecaster":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","combined_inference":[{"label_id":1,"label_name":"y","value":"1.8000000112651182"}]}],"one_in_forecaster_values":[{"forecaster":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","combined_inference":[{"label_id":1,"label_name":"y","value":"2.000000006258399"}]},{"forecaster":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","combined_inference":[{"label_id":1,"label_name":"y","value":"2.000000006258399"}]},{"forecaster":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","combined_inference":[{"label_id":1,"label_name":"y","value":"2.000000006258399"}]},{"forecaster":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","combined_inference":[{"label_id":1,"label_name":"y","value":"2.000000006258399"}]}],"one_out_inferer_forecaster_values":[]},"inference_block_height":"13"}', '{"inferer":{"allo1a":"0.7763705064628605","allo1b":"0.02045205828336535"},"forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"0.05079435881344358","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"0.05079435881344358","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"0.05079435881344358","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"0.05079435881344358"}}', '[{"label":"y","values":["1.5","1.5","1.5000000050759987","1.5000000187751972","2.4705430302335305"]}]', NULL, NULL, NULL, '\x01040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c65353973650200000006000000616c6c6f316106000000616c6c6f3162010000000000000000000840000000000000f83f0000000000000840000000000000f83f0000000000000840000000000000f83f0000000000000840000000000000f83f', NULL),
	(1, 25, '{"network_inferences":{"topic_id":"1","nonce":"25","combined_value":[{"label_id":1,"label_name":"y","value":"1.5"}],"inferer_values":[{"worker":"allo1a","values":[{"label_id":1,"label_name":"y","value":"1.5"}]},{"worker":"allo1b","values":[{"label_id":1,"label_name":"y","value":"3"}]}],"forecaster_values":[{"worker":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","values":[{"label_id":1,"label_name":"y","value":"1.5"}]},{"worker":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","values":[{"label_id":1,"label_name":"y","value":"1.5"}]},{"worker":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","values":[{"label_id":1,"label_name":"y","value":"1.5"}]},{"worker":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","values":[{"label_id":1,"label_name":"y","value":"1.5"}]}],"naive_value":[{"label_id":1,"label_name":"y","value":"1.5"}],"one_out_inferer_values":[{"withheld_inferer":"allo1a","combined_inference":[{"label_id":1,"label_name":"y","value":"3"}]},{"withheld_inferer":"allo1b","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5"}]}],"one_out_forecaster_values":[{"withheld_forecaster":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5"}]},{"withheld_forecaster":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5"}]},{"withheld_forecaster":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5"}]},{"withheld_forecaster":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5"}]}],"one_in_forecaster_values":[{"forecaster":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5000000000000002"}]},{"forecaster":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5000000000000002"}]},{"forecaster":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5000000000000002"}]},{"forecaster":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","combined_inference":[{"label_id":1,"label_name":"y","value":"1.5000000000000002"}]}],"one_out_inferer_forecaster_values":[]},"inference_block_height":"25"}', '{"inferer":{"allo1a":"0.999999998454415","allo1b":"0.00000000000000000000000000005768941598326234"},"forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"0.00000000038639624466986105","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"0.00000000038639624466986105","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"0.00000000038639624466986105","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"0.00000000038639624466986105"}}', '[{"label":"y","values":["1.5","1.5","1.5","2.523899999264147","2.931599999894282"]}]', NULL, NULL, NULL, '\x01040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c65353973650200000006000000616c6c6f316106000000616c6c6f3162010000000000000000000840000000000000f83f0000000000000840000000000000f83f0000000000000840000000000000f83f0000000000000840000000000000f83f', NULL),
	(1, 37, '{"network_inferences":{"topic_id":"1","nonce":"37","combined_value":[{"label_id":1,"label_name":"y","value":"1.750026508547571"}],"inferer_values":[{"worker":"allo1a","values":[{"label_id":1,"label_name":"y","value":"1.75"}]},{"worker":"allo1c","values":[{"label_id":1,"label_name":"y","value":"2.5"}]},{"worker":"allo1d","values":[{"label_id":1,"label_name":"y","value":"900"}]}],"forecaster_values":[{"worker":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","values":[{"label_id":1,"label_name":"y","value":"1.75"}]},{"worker":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","values":[{"label_id":1,"label_name":"y","value":"1.75"}]},{"worker":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","values":[{"label_id":1,"label_name":"y","value":"1.75"}]},{"worker":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","values":[{"label_id":1,"label_name":"y","value":"1.75"}]}],"naive_value":[{"label_id":1,"label_name":"y","value":"1.7500534224227817"}],"one_out_inferer_values":[{"withheld_inferer":"allo1a","combined_inference":[{"label_id":1,"label_name":"y","value":"451.25"}]},{"withheld_inferer":"allo1c","combined_inference":[{"label_id":1,"label_name":"y","value":"151.45833333333334"}]},{"withheld_inferer":"allo1d","combined_inference":[{"label_id":1,"label_name":"y","value":"1.875"}]}],"one_out_forecaster_values":[{"withheld_forecaster":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","combined_inference":[{"label_id":1,"label_name":"y","value":"451.2499999999996"}]},{"withheld_forecaster":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","combined_inference":[{"label_id":1,"label_name":"y","value":"451.2499999999996"}]},{"withheld_forecaster":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","combined_inference":[{"label_id":1,"label_name":"y","value":"451.2499999999996"}]},{"withheld_forecaster":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","combined_inference":[{"label_id":1,"label_name":"y","value":"451.2499999999996"}]}],"one_in_forecaster_values":[{"forecaster":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","combined_inference":[{"label_id":1,"label_name":"y","value":"451.25"}]},{"forecaster":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","combined_inference":[{"label_id":1,"label_name":"y","value":"451.25"}]},{"forecaster":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","combined_inference":[{"label_id":1,"label_name":"y","value":"451.25"}]},{"forecaster":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","combined_inference":[{"label_id":1,"label_name":"y","value":"451.25"}]}],"one_out_inferer_forecaster_values":[]},"inference_block_height":"37"}', '{"inferer":{"allo1a":"0.9999998230797715","allo1c":"0.00000002948670475080519","allo1d":"0.00000002948670475080519"},"forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"0.00000002948670475080519","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"0.00000002948670475080519","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"0.00000002948670475080519","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"0.00000002948670475080519"}}', '[{"label":"y","values":["1.75","1.75","1.75","2.26195003124854","2.4658000613028683"]}]', '{"network_inferences":{"topic_id":"1","nonce":"37","combined_value":[{"label_id":1,"label_name":"y","value":"1.7500000221150291"}],"inferer_values":[{"worker":"allo1a","values":[{"label_id":1,"label_name":"y","value":"1.75"}]},{"worker":"allo1c","values":[{"label_id":1,"label_name":"y","value":"2.5"}]}],"forecaster_values":[{"worker":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","values":[{"label_id":1,"label_name":"y","value":"1.75"}]},{"worker":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","values":[{"label_id":1,"label_name":"y","value":"1.75"}]},{"worker":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","values":[{"label_id":1,"label_name":"y","value":"1.75"}]},{"worker":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","values":[{"label_id":1,"label_name":"y","value":"1.75"}]}],"naive_value":[{"label_id":1,"label_name":"y","value":"1.7500000445682087"}],"one_out_inferer_values":[{"withheld_inferer":"allo1a","combined_inference":[{"label_id":1,"label_name":"y","value":"2.5"}]},{"withheld_inferer":"allo1c","combined_inference":[{"label_id":1,"label_name":"y","value":"1.75"}]}],"one_out_forecaster_values":[{"withheld_forecaster":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","combined_inference":[{"label_id":1,"label_name":"y","value":"2.499999999999998"}]},{"withheld_forecaster":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","combined_inference":[{"label_id":1,"label_name":"y","value":"2.499999999999998"}]},{"withheld_forecaster":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","combined_inference":[{"label_id":1,"label_name":"y","value":"2.4999999999999973"}]},{"withheld_forecaster":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","combined_inference":[{"label_id":1,"label_name":"y","value":"2.4999999999999973"}]}],"one_in_forecaster_values":[{"forecaster":"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn","combined_inference":[{"label_id":1,"label_name":"y","value":"2.5"}]},{"forecaster":"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn","combined_inference":[{"label_id":1,"label_name":"y","value":"2.5"}]},{"forecaster":"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs","combined_inference":[{"label_id":1,"label_name":"y","value":"2.5"}]},{"forecaster":"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se","combined_inference":[{"label_id":1,"label_name":"y","value":"2.5"}]}],"one_out_inferer_forecaster_values":[]},"inference_block_height":"37"}', '[{"label_id":1,"label_name":"y","value":"1.7500000221150291"}]', '[{"label":"y","values":["1.75","1.75","1.75","2.261949994037787","2.46580001808125"]}]', '\x01040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c65353973650300000006000000616c6c6f316106000000616c6c6f316306000000616c6c6f316401000000000000000000f87f000000000000fc3f000000000000fc3f000000000000f87f000000000000fc3f000000000000fc3f000000000000f87f000000000000fc3f000000000000fc3f000000000000f87f000000000000fc3f000000000000fc3f', '\x01040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c65353973650200000006000000616c6c6f316106000000616c6c6f316301000000000000000000f87f000000000000fc3f000000000000f87f000000000000fc3f000000000000f87f000000000000fc3f000000000000f87f000000000000fc3f');
INSERT INTO inference.chain VALUES
	(1, 1000000, 1000000, 0);
INSERT INTO inference.counters VALUES
	(1, 1, 'trusted', 2),
	(1, 13, 'trusted', 2),
	(1, 25, 'trusted', 2),
	(1, 37, 'trusted', 3),
	(1, 49, 'trusted', 1);
INSERT INTO inference.epochs VALUES
	(1, 1, 3, 1000000, 2000000, 1000000, 1.5, '[{"label_id":1,"label_name":"y","value":"2"}]', -1.2041199826559248, -1.2041199826559248, '{"combined_value":[{"label_id":1,"label_name":"y","value":"2.25"}],"naive_value":[{"label_id":1,"label_name":"y","value":"2.25"}],"n_inferers":2,"n_forecasters":0}', 10442, 0),
	(1, 13, 3, 1000000, 2000000, 1000000, 1.5, '[{"label_id":1,"label_name":"y","value":"2"}]', -0.6570583433900727, -0.6716575782068064, '{"combined_value":[{"label_id":1,"label_name":"y","value":"1.530678091239745"}],"naive_value":[{"label_id":1,"label_name":"y","value":"1.538500525439837"}],"n_inferers":2,"n_forecasters":4}', 15231, 0),
	(1, 25, 3, 1000000, 2000000, 1000000, 1.5, '[{"label_id":1,"label_name":"y","value":"2"}]', -0.6020599913279624, -0.6020599913279624, '{"combined_value":[{"label_id":1,"label_name":"y","value":"1.5"}],"naive_value":[{"label_id":1,"label_name":"y","value":"1.5"}],"n_inferers":2,"n_forecasters":4}', 15136, 0),
	(1, 37, 1, 1000000, 2000000, NULL, NULL, NULL, NULL, NULL, '{"combined_value":[{"label_id":1,"label_name":"y","value":"1.750026508547571"}],"naive_value":[{"label_id":1,"label_name":"y","value":"1.7500534224227817"}],"n_inferers":3,"n_forecasters":4}', 13060, 0),
	(1, 49, 0, 1000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0);
INSERT INTO inference.format VALUES
	(2, 1765380028129396082);
INSERT INTO inference.holdings VALUES
	(1, 4, 53869, 53869);
INSERT INTO inference.learned VALUES
	(1, 3, '{"nonce":25,"n_learned":3,"regrets":{"ordinary":{"inferer":{"allo1a":"-0.08586341521991686","allo1b":"-0.3796686909879625"},"forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"-0.14366116916886387","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"-0.14366116916886387","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"-0.14366116916886387","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"-0.14366116916886387"}},"naive":{"allo1a":"-0.08819929279059424","allo1b":"-0.38200456855863996"}},"regret_scale":"0.01","initial_regret":"-0.14366116916886387","combined_loss":"-0.6020599913279624","losses":{"inferer":{"allo1a":"-0.6020599913279624","allo1b":"0"},"forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"-0.6020599913279624","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"-0.6020599913279624","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"-0.6020599913279624","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"-0.6020599913279624"}},"scores":{"inferer":{"allo1a":"1.094678435989202","allo1b":"0.49261844466123955"},"forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"-0.4340058274852963","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"-0.4340058274852963","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"-0.4340058274852963","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"-0.4340058274852963"}},"loss_averages":{"allo1a":"-0.6020599913279624","allo1b":"0"},"resting_target_inferer":"0.1505149978319906","resting_target_forecaster":"0.00000000000000004163336342344337","inferers":{"allo1a":{"n_epochs":3,"last_nonce":25},"allo1b":{"n_epochs":3,"last_nonce":25}},"forecasters":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":{"n_epochs":2,"last_nonce":25},"allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":{"n_epochs":2,"last_nonce":25},"allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":{"n_epochs":2,"last_nonce":25},"allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":{"n_epochs":2,"last_nonce":25}}}', '\x010200000006000000616c6c6f316106000000616c6c6f31620200000006000000616c6c6f316106000000616c6c6f3162010000009f39b4a4b4cdd23f7f0d755fe8c9a1bcec51b81e85eba13c9f39b4a4b4cdd2bf0200000006000000616c6c6f316106000000616c6c6f3162040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c6535397365010000001763f9bc2343c1bf1763f9bc2343c1bf1763f9bc2343c1bf1763f9bc2343c1bf0e63f9bc2343c1bf0e63f9bc2343c1bf0e63f9bc2343c1bf0e63f9bc2343c1bf040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c65353973650200000006000000616c6c6f316106000000616c6c6f3162010000006dc2bbf0ebc7d0bf764d4d1604a7debf6dc2bbf0ebc7d0bf764d4d1604a7debf6dc2bbf0ebc7d0bf764d4d1604a7debf6dc2bbf0ebc7d0bf764d4d1604a7debf040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c6535397365040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c653539736501000000814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf814c21ebebc7d0bf040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c65353973650200000006000000616c6c6f316106000000616c6c6f316201000000c86b3f872ff2d6bf697b68d6a368e2bfc86b3f872ff2d6bf697b68d6a368e2bfc86b3f872ff2d6bf697b68d6a368e2bfc86b3f872ff2d6bf697b68d6a368e2bf040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c6535397365040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c653539736501000000ddf5a4812ff2d6bf000000000000f87f000000000000f87f000000000000f87f000000000000f87fddf5a4812ff2d6bf000000000000f87f000000000000f87f000000000000f87f000000000000f87fddf5a4812ff2d6bf000000000000f87f000000000000f87f000000000000f87f000000000000f87fddf5a4812ff2d6bf', '\x0103000000010200000006000000616c6c6f316106000000616c6c6f316201000000ff799f501344e3bf0000000000000000000000000000e8bf000000000000e83f0001000000ff799f501344e3bf0000000000000000000000000000e8bf000000000000e83f0001000000ff799f501344e3bf0000000000000000000000000000e8bf000000000000e83f');
INSERT INTO inference.losses VALUES
	(1, 1, '{"combined":"-1.2041199826559248","naive":"-1.2041199826559248","inferer":{"allo1a":"-0.6020599913279624","allo1b":"0"},"forecaster":{},"one_out_inferer":{"allo1a":"0","allo1b":"-0.6020599913279624"},"one_out_forecaster":{},"one_in_forecaster":{}}', NULL),
	(1, 13, '{"combined":"-0.6570583433900727","naive":"-0.6716575782068064","inferer":{"allo1a":"-0.6020599913279624","allo1b":"0"},"forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"-0.6020600239438211","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"-0.6020600239438211","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"-0.6020600239438211","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"-0.6020600239438211"},"one_out_inferer":{"allo1a":"-0.0000000000000007714619732426304","allo1b":"-0.6020599913279616"},"one_out_forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"-1.3979400575958258","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"-1.3979400575958258","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"-1.3979400575958258","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"-1.3979400575958258"},"one_in_forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"-2","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"-2","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"-2","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"-2"}}', '\x01040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c65353973650200000006000000616c6c6f316106000000616c6c6f3162010000000000000000000000ff799f501344e3bf0000000000000000ff799f501344e3bf0000000000000000ff799f501344e3bf0000000000000000ff799f501344e3bf'),
	(1, 25, '{"combined":"-0.6020599913279624","naive":"-0.6020599913279624","inferer":{"allo1a":"-0.6020599913279624","allo1b":"0"},"forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"-0.6020599913279624","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"-0.6020599913279624","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"-0.6020599913279624","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"-0.6020599913279624"},"one_out_inferer":{"allo1a":"0","allo1b":"-0.6020599913279624"},"one_out_forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"-0.6020599913279624","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"-0.6020599913279624","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"-0.6020599913279624","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"-0.6020599913279624"},"one_in_forecaster":{"allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn":"-0.6020599913279627","allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn":"-0.6020599913279627","allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs":"-0.6020599913279627","allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se":"-0.6020599913279627"}}', '\x01040000002b000000616c6c6f3136727533326c367274366a646536683836736d3230646c3038686d357561786b6c656377666e2b000000616c6c6f316b3566667779323932397966327835396c67646a7064396e7830796a66367533347a6c33646e2b000000616c6c6f3170396a6639616576643775396a786d787372387837677178786e6b34736770777163753863732b000000616c6c6f31757765377761643475356c6e773567776378336e6335677879386e65307461766c65353973650200000006000000616c6c6f316106000000616c6c6f3162010000000000000000000000ff799f501344e3bf0000000000000000ff799f501344e3bf0000000000000000ff799f501344e3bf0000000000000000ff799f501344e3bf');
INSERT INTO inference.snapshots VALUES
	(1, 1, '{"nonce":null,"n_learned":0,"regrets":{"ordinary":{"inferer":{},"forecaster":{}},"naive":{}},"regret_scale":null,"initial_regret":"0","combined_loss":null,"losses":{"inferer":{},"forecaster":{}},"scores":{"inferer":{},"forecaster":{}},"loss_averages":{},"resting_target_inferer":null,"resting_target_forecaster":null,"inferers":{},"forecasters":{}}', '\x01000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000', '\x0100000000');
INSERT INTO inference.submissions VALUES
	(1, 1, 'allo1a', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"1.5"}]}', 1, NULL),
	(1, 1, 'allo1b', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"3"}]}', 1, NULL),
	(1, 13, 'allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn', 2000000, '{"name":"built-in: mean","inference":[]}', 1, '{"allo1a":"-0.6020599913279624","allo1b":"0"}'),
	(1, 13, 'allo1a', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"1.5"}]}', 1, NULL),
	(1, 13, 'allo1b', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"3"}]}', 1, NULL),
	(1, 13, 'allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn', 2000000, '{"name":"built-in: steady","inference":[]}', 1, '{"allo1a":"-0.6020599913279624","allo1b":"0"}'),
	(1, 13, 'allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs', 2000000, '{"name":"built-in: wary","inference":[]}', 1, '{"allo1a":"-0.6020599913279624","allo1b":"0"}'),
	(1, 13, 'allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se', 2000000, '{"name":"built-in: similar","inference":[]}', 1, '{"allo1a":"-0.6020599913279624","allo1b":"0"}'),
	(1, 25, 'allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn', 2000000, '{"name":"built-in: mean","inference":[]}', 1, '{"allo1a":"-0.6020599913279624","allo1b":"0"}'),
	(1, 25, 'allo1a', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"1.5"}]}', 1, NULL),
	(1, 25, 'allo1b', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"3"}]}', 1, NULL),
	(1, 25, 'allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn', 2000000, '{"name":"built-in: steady","inference":[]}', 1, '{"allo1a":"-0.6020599913279624","allo1b":"0"}'),
	(1, 25, 'allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs', 2000000, '{"name":"built-in: wary","inference":[]}', 1, '{"allo1a":"-0.6020599913279624","allo1b":"0"}'),
	(1, 25, 'allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se', 2000000, '{"name":"built-in: similar","inference":[]}', 1, '{"allo1a":"-0.6020599913279624","allo1b":"0"}'),
	(1, 37, 'allo16ru32l6rt6jde6h86sm20dl08hm5uaxklecwfn', 2000000, '{"name":"built-in: mean","inference":[]}', 1, '{"allo1a":"-0.6020599913279624"}'),
	(1, 37, 'allo1a', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"1.75"}]}', 1, NULL),
	(1, 37, 'allo1c', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"2.5"}]}', 1, NULL),
	(1, 37, 'allo1d', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"900"}]}', 1, NULL),
	(1, 37, 'allo1k5ffwy2929yf2x59lgdjpd9nx0yjf6u34zl3dn', 2000000, '{"name":"built-in: steady","inference":[]}', 1, '{"allo1a":"-0.6020599913279624"}'),
	(1, 37, 'allo1p9jf9aevd7u9jxmxsr8x7gqxxnk4sgpwqcu8cs', 2000000, '{"name":"built-in: wary","inference":[]}', 1, '{"allo1a":"-0.6020599913279624"}'),
	(1, 37, 'allo1uwe7wad4u5lnw5gwcx3nc5gxy8ne0tavle59se', 2000000, '{"name":"built-in: similar","inference":[]}', 1, '{"allo1a":"-0.6020599913279624"}'),
	(1, 49, 'allo1a', 1000000, '{"name":"me","inference":[{"label_id":1,"label_name":"y","value":"0.1"}]}', 1, NULL);
INSERT INTO inference.topics VALUES
	(1, '{"id":1,"creator":null,"is_active":true,"workers":[],"settings":{"metadata":"processor load one minute ahead, %","topic_type":"regression","output_arity":"single","label_whitelist":[],"label_case_sensitive":false,"label_default_value":"0","max_labels_per_submission":1,"require_unity":false,"unity_tolerance":null,"loss_method":"mse","allow_negative":false,"loss_floor":"0.01","algorithm":"mad-v0.17","p_norm":"3","c_norm":"0.75","alpha_regret":"0.2","epsilon":"0.01","merit_sortition_alpha":"0.1","active_inferer_quantile":"0.25","active_forecaster_quantile":"0.25","active_reputer_quantile":"0.25","max_top_inferers_to_reward":32,"max_top_forecasters_to_reward":6,"enable_worker_whitelist":false,"worker_whitelist":[],"min_experienced":2,"epoch_length":12,"worker_submission_window":6,"ground_truth_lag":60,"dataset":"machine_cpu","dataset_id":null,"column":"load_percent","horizon_seconds":60,"direction_threshold":null,"predictor":{"function":"predict","method":"predict.wasm","subgroup":null,"n_nodes":1,"n_rows":120,"env":{"HORIZON":"60","VALUE":"load_percent"},"models":[{"name":"persistence","env":{"MODEL":"last"}},{"name":"average 30 s","env":{"MODEL":"mean","WINDOW":"30"}},{"name":"average 2 min","env":{"MODEL":"mean","WINDOW":"120"}},{"name":"momentum 1 min","env":{"MODEL":"momentum","WINDOW":"60"}},{"name":"momentum 2 min","env":{"MODEL":"momentum","WINDOW":"120"}},{"name":"half reversion","env":{"MODEL":"reversion","RETURN":"0.5","WINDOW":"60"}},{"name":"noisy","env":{"LUCK":"0.5","MODEL":"mean","SEED":"load","WINDOW":"60"}},{"name":"stale","env":{"MODEL":"mean","STALE":"80","WINDOW":"20"}}]},"built_in_forecasters":true,"keep_bytes":null,"keep_days":null,"experimental":false}}'),
	(2, '{"id":2,"creator":null,"is_active":true,"workers":[],"settings":{"metadata":"direction of synthetic BTC/USD over 30 minutes","topic_type":"classification","output_arity":"multi","label_whitelist":["up","down","flat"],"label_case_sensitive":false,"label_default_value":"0","max_labels_per_submission":256,"require_unity":true,"unity_tolerance":"0.000001","loss_method":"mse","allow_negative":false,"loss_floor":"0.01","algorithm":"mad-v0.17","p_norm":"3","c_norm":"0.75","alpha_regret":"0.2","epsilon":"0.01","merit_sortition_alpha":"0.1","active_inferer_quantile":"0.25","active_forecaster_quantile":"0.25","active_reputer_quantile":"0.25","max_top_inferers_to_reward":32,"max_top_forecasters_to_reward":6,"enable_worker_whitelist":false,"worker_whitelist":[],"min_experienced":2,"epoch_length":12,"worker_submission_window":6,"ground_truth_lag":36,"dataset":"synthetic_btcusd_1min","dataset_id":null,"column":"close","horizon_seconds":1800,"direction_threshold":"0.001","predictor":{"function":"predict","method":"predict.wasm","subgroup":null,"n_nodes":1,"n_rows":120,"env":{"HORIZON":"30","LABELS":"up,down,flat","THRESHOLD":"0.001","VALUE":"close"},"models":[{"name":"persistence","env":{"MODEL":"last","WINDOW":"120"}},{"name":"momentum 15 min","env":{"MODEL":"momentum","NOISE_OF":"moves","WINDOW":"15"}},{"name":"momentum 1 h","env":{"MODEL":"momentum","NOISE_OF":"moves","SPREAD":"0.8","WINDOW":"60"}},{"name":"reversion 40 min","env":{"MODEL":"reversion","NOISE_OF":"moves","SPREAD":"0.6","WINDOW":"40"}},{"name":"reversion 2 h","env":{"MODEL":"reversion","NOISE_OF":"moves","SPREAD":"0.8","WINDOW":"120"}},{"name":"volatility-scaled","env":{"MODEL":"last","NOISE_OF":"moves"}},{"name":"seasonal","env":{"MODEL":"seasonal","WINDOW":"120"}},{"name":"noisy","env":{"LUCK":"1","MODEL":"momentum","NOISE_OF":"moves","SEED":"market","WINDOW":"30"}},{"name":"stale","env":{"MODEL":"momentum","NOISE_OF":"moves","SPREAD":"0.8","STALE":"45","WINDOW":"60"}},{"name":"trend specialist","env":{"MODEL":"momentum","NOISE_OF":"moves","SPREAD":"0.35","WINDOW":"45"}},{"name":"range specialist","env":{"MODEL":"reversion","NOISE_OF":"moves","SPREAD":"0.35","WINDOW":"25"}}]},"built_in_forecasters":true,"keep_bytes":null,"keep_days":null,"experimental":false}}');
INSERT INTO inference.versions VALUES
	(1, 0),
	(2, 0),
	(0, 1);
ALTER TABLE ONLY inference.baselines
    ADD CONSTRAINT baselines_pkey PRIMARY KEY (topic_id);
ALTER TABLE ONLY inference.bundles
    ADD CONSTRAINT bundles_pkey PRIMARY KEY (topic_id, nonce);
ALTER TABLE ONLY inference.chain
    ADD CONSTRAINT chain_pkey PRIMARY KEY (id);
ALTER TABLE ONLY inference.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (topic_id, nonce, name);
ALTER TABLE ONLY inference.epochs
    ADD CONSTRAINT epochs_pkey PRIMARY KEY (topic_id, nonce);
ALTER TABLE ONLY inference.format
    ADD CONSTRAINT format_pkey PRIMARY KEY (version);
ALTER TABLE ONLY inference.holdings
    ADD CONSTRAINT holdings_pkey PRIMARY KEY (topic_id);
ALTER TABLE ONLY inference.labels
    ADD CONSTRAINT labels_pkey PRIMARY KEY (topic_id, nonce, label);
ALTER TABLE ONLY inference.learned
    ADD CONSTRAINT learned_pkey PRIMARY KEY (topic_id);
ALTER TABLE ONLY inference.losses
    ADD CONSTRAINT losses_pkey PRIMARY KEY (topic_id, nonce);
ALTER TABLE ONLY inference.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (topic_id, nonce);
ALTER TABLE ONLY inference.submissions
    ADD CONSTRAINT submissions_pkey PRIMARY KEY (topic_id, nonce, worker);
ALTER TABLE ONLY inference.topics
    ADD CONSTRAINT topics_pkey PRIMARY KEY (id);
ALTER TABLE ONLY inference.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (topic_id);
CREATE INDEX epochs_to_do ON inference.epochs USING btree (topic_id, nonce) WHERE (state = ANY (ARRAY[(0)::bigint, (1)::bigint]));
CREATE INDEX epochs_to_thin ON inference.epochs USING btree (topic_id, nonce) WHERE ((is_thin = 0) AND (state > 1));
