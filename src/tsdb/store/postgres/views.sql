-- Views for people with psql, and the functions that unpack chunks for them as `codec` writes these.
-- Run in one transaction where they are missing or of another text, so that each statement says
-- CREATE OR REPLACE: a view keeps its columns, new ones come after them.
--
-- The functions of an expression alone have bodies that are bound to what they name when they are made;
-- the others say where names are looked up.

-- Microseconds since 1970, in two parts, since an interval is multiplied by a float.
CREATE OR REPLACE FUNCTION datasets.at(micros bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'epoch'::timestamptz + micros / 1000000 * interval '1 second'
    + micros % 1000000 * interval '1 microsecond';

CREATE OR REPLACE FUNCTION datasets.micros(t timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN isfinite(t) THEN (extract(epoch FROM t) * 1000000)::bigint
    WHEN t > 'epoch' THEN 9223372036854775807 ELSE '-9223372036854775808'::bigint END;

-- A number modulo 2^64.
CREATE OR REPLACE FUNCTION datasets.wrapped(number numeric) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (mod(mod(number + 9223372036854775808, 18446744073709551616) + 18446744073709551616,
    18446744073709551616) - 9223372036854775808)::bigint;

CREATE OR REPLACE FUNCTION datasets.wrapping_sum(a bigint, b bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN CASE WHEN b < 0 THEN a >= '-9223372036854775808'::bigint - b
        ELSE a <= 9223372036854775807 - b END
    THEN a + b ELSE datasets.wrapped(a::numeric + b) END;

-- The float of 64 bits.
CREATE OR REPLACE FUNCTION datasets.float_of_bits(bits bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE (bits >> 52) & 2047
    WHEN 2047 THEN CASE WHEN bits & 4503599627370495 <> 0 THEN 'NaN'::double precision
        WHEN bits < 0 THEN '-Infinity' ELSE 'Infinity' END
    WHEN 0 THEN CASE WHEN bits < 0 THEN -1::double precision ELSE 1 END
        -- 2^-1074, in two steps so that neither is too small for a power.
        * (bits & 4503599627370495) * power(2::double precision, -537) * power(2::double precision, -537)
    ELSE CASE WHEN bits < 0 THEN -1::double precision ELSE 1 END
        * ((bits & 4503599627370495) | 4503599627370496)
        * power(2::double precision, (((bits >> 52) & 2047) - 1075) / 2)
        * power(2::double precision, ((bits >> 52) & 2047) - 1075 - (((bits >> 52) & 2047) - 1075) / 2)
    END;

-- The float of a number in the order of floats.
CREATE OR REPLACE FUNCTION datasets.float_of_ordered(number bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN datasets.float_of_bits(CASE WHEN number < 0 THEN number # 9223372036854775807 ELSE number END);

-- The four bytes of a little-endian number from `place` on, which is 0 for the first one.
CREATE OR REPLACE FUNCTION datasets.u32_at(bytes bytea, place integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN get_byte(bytes, place) + (get_byte(bytes, place + 1) << 8)
    + (get_byte(bytes, place + 2) << 16) + (get_byte(bytes, place + 3)::bigint << 24);

-- Bytes from `place` on.
CREATE OR REPLACE FUNCTION datasets.taken(bytes bytea, place integer, n_bytes bigint) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
BEGIN
    IF n_bytes < 0 OR place + n_bytes > length(bytes) THEN
        RAISE EXCEPTION 'decode a chunk: it ends too early' USING ERRCODE = 'data_corrupted';
    END IF;
    RETURN substring(bytes FROM place + 1 FOR n_bytes::integer);
END $$;

-- The bytes after version and checksum, which is not tested.
CREATE OR REPLACE FUNCTION datasets.content(bytes bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
BEGIN
    IF length(bytes) < 5 THEN
        RAISE EXCEPTION 'decode a chunk: it ends too early' USING ERRCODE = 'data_corrupted';
    END IF;
    IF get_byte(bytes, 0) <> 2 THEN
        RAISE EXCEPTION 'decode a chunk: unknown version %', get_byte(bytes, 0)
            USING ERRCODE = 'data_corrupted', HINT = 'These views read version 2 alone.';
    END IF;
    RETURN substring(bytes FROM 6);
END $$;

-- The bits of some bytes, the lowest one of the first byte last: digits are reversed, then swapped in
-- each byte.
CREATE OR REPLACE FUNCTION datasets.bits_of(bytes bytea) RETURNS bit varying
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
    swapped CONSTANT bit varying := ('x' || reverse(encode(bytes, 'hex')))::bit varying;
    low CONSTANT bit varying := ('x' || repeat('0f', length(bytes)))::bit varying;
BEGIN
    RETURN ((swapped >> 4) & low) | ((swapped & low) << 4);
END $$;

-- `n` numbers of `width` bits, 64 at most, one after the other; those of 64 have a sign.
CREATE OR REPLACE FUNCTION datasets.words(bytes bytea, n integer, width integer) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
    n_bytes CONSTANT integer := (n::bigint * width + 7) / 8;
    bits CONSTANT bit varying := datasets.bits_of(datasets.taken(bytes, 0, n_bytes));
BEGIN
    RETURN ARRAY(SELECT substring(bits FROM n_bytes * 8 - idx * width + 1 FOR width)::bigint
        FROM generate_series(1, n) AS idx);
END $$;

-- `n` numbers as `bit_packing` writes them.
CREATE OR REPLACE FUNCTION datasets.numbers(bytes bytea, n integer) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
    n_blocks CONSTANT integer := (n + 255) / 256;
    size CONSTANT integer := length(bytes);
    place integer := 0;
    varints bigint[] := '{}';
    widths integer[] := '{}';
    base bigint;
    unit bigint;
    step bigint;
    number bigint;
    shift integer;
    byte integer;
    width integer;
    n_here integer;
    n_bytes integer;
    words bigint[];
    line bigint;
    unpacked bigint[] := '{}';
BEGIN
    -- Base, unit and step, and the least number of each block after its width.
    FOR idx IN 1 .. CASE WHEN n > 0 THEN 3 + n_blocks ELSE 0 END LOOP
        IF idx > 3 THEN
            width := get_byte(datasets.taken(bytes, place, 1), 0);
            IF width > 64 THEN
                RAISE EXCEPTION 'decode a chunk: a number of more than 64 bits'
                    USING ERRCODE = 'data_corrupted';
            END IF;
            widths := widths || width;
            place := place + 1;
        END IF;
        number := 0;
        shift := 0;
        LOOP
            IF place >= size OR shift > 63 THEN
                RAISE EXCEPTION 'decode a chunk: a number that does not end'
                    USING ERRCODE = 'data_corrupted';
            END IF;
            byte := get_byte(bytes, place);
            place := place + 1;
            number := number | ((byte & 127)::bigint << shift);
            EXIT WHEN byte < 128;
            shift := shift + 7;
        END LOOP;
        varints := varints || (((number >> 1) & 9223372036854775807) # (-(number & 1)));
    END LOOP;
    base := varints[1];
    unit := varints[2];
    step := varints[3];
    FOR block IN 1 .. n_blocks LOOP
        n_here := least(256, n - (block - 1) * 256);
        width := widths[block];
        number := varints[3 + block];
        n_bytes := (n_here * width + 7) / 8;
        IF width > 0 THEN
            words := datasets.words(datasets.taken(bytes, place, n_bytes), n_here, width);
            place := place + n_bytes;
        END IF;
        IF abs(base::float8) + abs(unit::float8)
            * (abs(number::float8) + abs(step::float8) * n + 2::float8 ^ width) < 9.2e18
        THEN
            line := base + unit * (number + step * ((block - 1) * 256 - 1));
            number := unit * step;
            IF width = 0 THEN
                unpacked := unpacked
                    || ARRAY(SELECT line + number * idx FROM generate_series(1, n_here) AS idx);
            ELSE
                unpacked := unpacked || ARRAY(SELECT line + number * idx + unit * word
                    FROM unnest(words) WITH ORDINALITY AS each (word, idx));
            END IF;
        ELSE
            -- It may go beyond 64 bits, and begins again below zero then.
            unpacked := unpacked || ARRAY(SELECT datasets.wrapped(base + unit::numeric * (number
                    + step::numeric * ((block - 1) * 256 - 1 + idx) + CASE WHEN width = 0 THEN 0
                        WHEN words[idx] < 0 THEN words[idx] + 18446744073709551616
                        ELSE words[idx] END))
                FROM generate_series(1, n_here) AS idx);
        END IF;
    END LOOP;
    RETURN unpacked;
END $$;

-- The timestamps of a chunk, which begin and end as its record says.
CREATE OR REPLACE FUNCTION datasets.times(bytes bytea, n bigint, t_first bigint, t_last bigint)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
    times CONSTANT bigint[] := datasets.numbers(datasets.content(bytes), n::integer);
BEGIN
    IF (times[1], times[n]) IS DISTINCT FROM (t_first, t_last) THEN
        RAISE EXCEPTION 'decode a chunk: it is not where it should be'
            USING ERRCODE = 'data_corrupted';
    END IF;
    RETURN times;
END $$;

-- `n` texts, of which those with a null character are escaped: no text of PostgreSQL has one.
CREATE OR REPLACE FUNCTION datasets.texts(bytes bytea, n integer) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
    ends CONSTANT bigint[] := datasets.words(bytes, n + 1, 32);
    texts CONSTANT bytea := substring(bytes FROM 4 * n + 5);
BEGIN
    RETURN ARRAY(SELECT CASE WHEN position('\x00'::bytea IN text) > 0 THEN encode(text, 'escape')
            ELSE convert_from(text, 'UTF8') END
        FROM generate_series(1, n) AS idx,
            datasets.taken(texts, ends[idx]::integer, ends[idx + 1] - ends[idx]) AS text);
END $$;

-- The columns of a body of `n` rows. Column -1 are the row numbers and column 0 the times at which rows
-- were stored, or there is none of both; then the columns of the dataset. `dtype` is 0 for floats, 1 for
-- integers, 2 for strings, 3 for booleans, which are among the numbers. Where a row has no value, there
-- is a null, or no list of values at all.
CREATE OR REPLACE FUNCTION datasets.body_columns(bytes bytea, n integer)
RETURNS TABLE (place integer, dtype integer, floats double precision[], numbers bigint[], texts text[])
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
    body CONSTANT bytea := datasets.content(bytes);
    start integer := 6;
    size bigint;
    kind integer;
    coding integer;
    payload bytea;
    bitmap bytea;
    ordered bigint[];
    origin integer;
    origin_ordered bigint[];
    scale double precision;
    n_texts integer;
BEGIN
    IF datasets.u32_at(datasets.taken(body, 0, 6), 0) <> n THEN
        RAISE EXCEPTION 'decode a chunk: another number of rows' USING ERRCODE = 'data_corrupted';
    END IF;
    FOR column_idx IN -1 .. get_byte(body, 4) + (get_byte(body, 5) << 8) LOOP
        place := column_idx;
        kind := 1;
        dtype := 1;
        coding := 1;
        IF place > 0 THEN
            payload := datasets.taken(body, start, 3);
            kind := get_byte(payload, 0);
            dtype := get_byte(payload, 1);
            coding := get_byte(payload, 2);
            start := start + 3;
        END IF;
        size := datasets.u32_at(datasets.taken(body, start, 4), 0);
        payload := datasets.taken(body, start + 4, size);
        start := start + 4 + size;
        CONTINUE WHEN place <= 0 AND size = 0;
        IF kind > 2 THEN
            RAISE EXCEPTION 'decode a chunk: unknown kind of column' USING ERRCODE = 'data_corrupted';
        END IF;
        bitmap := NULL;
        IF kind = 2 THEN
            bitmap := datasets.taken(payload, 0, (n + 7) / 8);
            payload := substring(payload FROM (n + 7) / 8 + 1);
        END IF;
        floats := NULL;
        numbers := NULL;
        texts := NULL;
        IF kind = 0 THEN
            NULL;
        ELSIF dtype = 0 AND coding = 0 THEN
            floats := ARRAY(SELECT datasets.float_of_bits(word)
                FROM unnest(datasets.words(payload, n, 64)) AS word);
        ELSIF dtype = 0 AND coding = 1 THEN
            ordered := datasets.numbers(payload, n);
            floats := ARRAY(SELECT datasets.float_of_ordered(word) FROM unnest(ordered) AS word);
            IF kind = 1 AND origin IS NULL THEN
                -- Columns after it may be distances to it.
                origin := place;
                origin_ordered := ordered;
            END IF;
        ELSIF dtype = 0 AND coding = 2 THEN
            scale := ('1e' || get_byte(datasets.taken(payload, 0, 1), 0))::double precision;
            floats := ARRAY(SELECT word / scale
                FROM unnest(datasets.numbers(substring(payload FROM 2), n)) AS word);
        ELSIF dtype = 0 AND coding = 3 THEN
            IF (datasets.u32_at(datasets.taken(payload, 0, 4), 0) & 65535) + 1 IS DISTINCT FROM origin THEN
                RAISE EXCEPTION 'decode a chunk: distances to a column that is not there'
                    USING ERRCODE = 'data_corrupted';
            END IF;
            floats := ARRAY(SELECT datasets.float_of_ordered(word) FROM (
                SELECT datasets.wrapping_sum(apart, from_origin)
                FROM unnest(datasets.numbers(substring(payload FROM 3), n), origin_ordered)
                    AS pair (apart, from_origin) OFFSET 0) AS sums (word));
        ELSIF dtype IN (1, 3) AND coding = 1 THEN
            numbers := datasets.numbers(payload, n);
        ELSIF dtype = 2 AND coding = 0 THEN
            texts := datasets.texts(payload, n);
        ELSIF dtype = 2 AND coding = 1 THEN
            -- Each text once, and which of them each row has.
            n_texts := datasets.u32_at(datasets.taken(payload, 0, 8), 0);
            size := datasets.u32_at(payload, 4);
            numbers := datasets.numbers(substring(payload FROM 9 + size::integer), n);
            texts := datasets.texts(datasets.taken(payload, 8, size), n_texts);
            IF EXISTS (SELECT FROM unnest(numbers) AS word WHERE word NOT BETWEEN 0 AND n_texts - 1) THEN
                RAISE EXCEPTION 'decode a chunk: a text that is not there'
                    USING ERRCODE = 'data_corrupted';
            END IF;
            texts := ARRAY(SELECT each.text FROM unnest(numbers) WITH ORDINALITY AS row (word, idx)
                JOIN unnest(texts) WITH ORDINALITY AS each (text, nth) ON each.nth = row.word + 1
                ORDER BY row.idx);
            numbers := NULL;
        ELSE
            RAISE EXCEPTION 'decode a chunk: unknown coding of a column'
                USING ERRCODE = 'data_corrupted';
        END IF;
        IF kind = 2 THEN
            SELECT CASE WHEN floats IS NOT NULL THEN array_agg(float ORDER BY idx) END,
                CASE WHEN numbers IS NOT NULL THEN array_agg(word ORDER BY idx) END,
                CASE WHEN texts IS NOT NULL THEN array_agg(text ORDER BY idx) END
            INTO floats, numbers, texts
            FROM (SELECT idx, CASE WHEN has THEN float END, CASE WHEN has THEN word END,
                    CASE WHEN has THEN text END
                FROM unnest(floats, numbers, texts) WITH ORDINALITY AS row (float, word, text, idx),
                    LATERAL (SELECT get_bit(bitmap, idx - 1) = 1 AS has) AS bit
            ) AS held (idx, float, word, text);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- The rows of a body, at `times`, of a dataset with columns of these `names`. The times at which rows
-- were stored are in microseconds, too.
CREATE OR REPLACE FUNCTION datasets.body_rows(times bigint[], body bytea, names text[])
RETURNS TABLE (t bigint, id bigint, created_at bigint, "values" json)
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog SET extra_float_digits = 1 AS $$
DECLARE
    n CONSTANT integer := cardinality(times);
    n_columns integer := 0;
    part record;
    key text;
    ids bigint[];
    created bigint[];
    objects text[] := array_fill('{'::text, ARRAY[n]);
BEGIN
    FOR part IN SELECT * FROM datasets.body_columns(body, n) LOOP
        IF part.place = -1 THEN
            ids := part.numbers;
        ELSIF part.place = 0 THEN
            created := part.numbers;
        ELSIF part.place > cardinality(names) THEN
            RAISE EXCEPTION 'decode a chunk: unknown columns' USING ERRCODE = 'data_corrupted';
        ELSE
            n_columns := part.place;
            key := CASE WHEN part.place > 1 THEN ', ' ELSE '' END || to_json(names[part.place]) || ': ';
            objects := ARRAY(SELECT object || key || coalesce(to_json(float)::text,
                    CASE WHEN part.dtype = 3 THEN (word <> 0)::text ELSE word::text END,
                    to_json(text)::text, 'null')
                FROM unnest(objects, part.floats, part.numbers, part.texts)
                    AS row (object, float, word, text));
        END IF;
    END LOOP;
    -- Columns that the dataset got since have no values.
    key := (SELECT coalesce(string_agg(CASE WHEN place > 1 THEN ', ' ELSE '' END || to_json(name)
            || ': null', '' ORDER BY place), '') || '}'
        FROM unnest(names) WITH ORDINALITY AS added (name, place) WHERE place > n_columns);
    RETURN QUERY SELECT row.t, row.id, row.created, (row.object || key)::json
        FROM unnest(times, ids, created, objects) AS row (t, id, created, object);
END $$;

-- The buckets of a body, which start at `times`.
CREATE OR REPLACE FUNCTION datasets.body_buckets(times bigint[], body bytea)
RETURNS TABLE (t bigint, open double precision, high double precision, low double precision,
    close double precision, volume double precision, count bigint)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
BEGIN
    RETURN QUERY WITH parts AS MATERIALIZED (
        SELECT * FROM datasets.body_columns(body, cardinality(times)))
    SELECT * FROM unnest(times, (SELECT floats FROM parts WHERE place = 1),
        (SELECT floats FROM parts WHERE place = 2), (SELECT floats FROM parts WHERE place = 3),
        (SELECT floats FROM parts WHERE place = 4), (SELECT floats FROM parts WHERE place = 5),
        (SELECT numbers FROM parts WHERE place = 6));
END $$;

-- The rows of a dataset between two timestamps. Its chunks of other times are not unpacked: those before
-- end too early for the index, whose walk ends with the first that does not.
CREATE OR REPLACE FUNCTION datasets.rows_between(
    dataset bigint, first timestamptz, last timestamptz)
RETURNS TABLE (t timestamptz, id bigint, created_at timestamptz, "values" json)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT datasets.at(r.t), r.id, datasets.at(r.created_at), r."values"
    FROM (SELECT ARRAY(SELECT name::text FROM datasets.columns WHERE columns.dataset = $1 ORDER BY ordinal)
            FROM datasets.head WHERE head.dataset = $1 AND place IS NULL) AS here (names)
        JOIN datasets.chunks c ON c.dataset = $1 AND c.resolution = 0
            AND c.t_last >= datasets.micros($2) AND c.t_first <= datasets.micros($3)
            AND c.t_last <= coalesce((SELECT min(t_last) FROM datasets.chunks
                WHERE chunks.dataset = $1 AND resolution = 0 AND t_last >= datasets.micros($3)),
                9223372036854775807)
        CROSS JOIN LATERAL datasets.body_rows(
            datasets.times(c.times, c.n, c.t_first, c.t_last), c.body, here.names) AS r
    WHERE r.t BETWEEN datasets.micros($2) AND datasets.micros($3)
        AND NOT EXISTS (SELECT FROM datasets.tail over WHERE over.dataset = $1 AND over.t = r.t)
    UNION ALL
    SELECT datasets.at(r.t), r.id, datasets.at(r.created_at), r."values"
    FROM (SELECT ARRAY(SELECT name::text FROM datasets.columns WHERE columns.dataset = $1 ORDER BY ordinal)
            FROM datasets.head WHERE head.dataset = $1 AND place IS NULL) AS here (names)
        JOIN datasets.tail s ON s.dataset = $1 AND s.t BETWEEN datasets.micros($2) AND datasets.micros($3)
        CROSS JOIN LATERAL datasets.body_rows(ARRAY[s.t], s.body, here.names) AS r;
END;
COMMENT ON FUNCTION datasets.rows_between(bigint, timestamptz, timestamptz) IS
    'The rows of a dataset, by its number, from one timestamp to another, both included, as in the view rows. Only chunks that have rows between them are unpacked.';

CREATE OR REPLACE VIEW datasets.rows AS
SELECT d.name, d.id AS dataset, r.t, r.id, r.created_at, r."values"
FROM datasets.datasets d
    CROSS JOIN LATERAL datasets.rows_between(d.id, '-infinity', 'infinity') AS r;
COMMENT ON VIEW datasets.rows IS
    'The rows of the datasets on this server, without those that are on S3: overview counts them. t is the timestamp, values has the value of each column, in the order of columns. Filter by dataset or name, since a row takes tens of microseconds to unpack, and half a millisecond where it is not in a chunk yet; for a part of the time ask rows_between(dataset, first, last), which unpacks only the chunks of that. A program reads rows faster from the service.';

-- The buckets of a dataset that start between two timestamps.
CREATE OR REPLACE FUNCTION datasets.bars_between(
    dataset bigint, first timestamptz, last timestamptz)
RETURNS TABLE (length interval, t timestamptz, open double precision, high double precision,
    low double precision, close double precision, volume double precision, count bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT make_interval(secs => c.resolution), datasets.at(b.t), b.open, b.high, b.low, b.close, b.volume,
        b.count
    FROM datasets.head
        JOIN datasets.chunks c ON c.dataset = $1 AND c.resolution > 0
            AND c.t_last >= datasets.micros($2) AND c.t_first <= datasets.micros($3)
        CROSS JOIN LATERAL datasets.body_buckets(
            datasets.times(c.times, c.n, c.t_first, c.t_last), c.body) AS b
    WHERE head.dataset = $1 AND place IS NULL AND b.t BETWEEN datasets.micros($2) AND datasets.micros($3)
        AND NOT EXISTS (SELECT FROM datasets.buckets over
            WHERE over.dataset = $1 AND over.resolution = c.resolution AND over.t = b.t)
    UNION ALL
    SELECT make_interval(secs => b.resolution), datasets.at(b.t), b.open, b.high, b.low, b.close, b.volume,
        b.count
    FROM datasets.head JOIN datasets.buckets b ON b.dataset = $1 AND b.resolution > 0
        AND b.t BETWEEN datasets.micros($2) AND datasets.micros($3)
    WHERE head.dataset = $1 AND place IS NULL;
END;
COMMENT ON FUNCTION datasets.bars_between(bigint, timestamptz, timestamptz) IS
    'The buckets of a dataset, by its number, that start from one timestamp to another, both included, as in the view bars. Only chunks that have buckets between them are unpacked.';

CREATE OR REPLACE VIEW datasets.bars AS
SELECT d.name, d.id AS dataset, b.length, b.t, b.open, b.high, b.low, b.close, b.volume, b.count
FROM datasets.datasets d
    CROSS JOIN LATERAL datasets.bars_between(d.id, '-infinity', 'infinity') AS b;
COMMENT ON VIEW datasets.bars IS
    'The buckets of five minutes, one hour and one day of the datasets on this server; those of 15 minutes and four hours are folded when they are read. t is the start. Filter by dataset or name, and length, since each chunk of about 1024 buckets is unpacked in milliseconds; for a part of the time ask bars_between(dataset, first, last), which unpacks only the chunks of that.';

CREATE OR REPLACE VIEW datasets.overview AS
SELECT d.id, d.name, d.description, d.owner, here.revision, datasets.at(here.newest) AS newest,
    CASE WHEN here.dataset IS NOT NULL THEN coalesce(c.n, 0) + coalesce(s.n, 0)
        + (SELECT count(*) FROM datasets.tail WHERE dataset = d.id AND NOT replaces) END AS rows,
    CASE WHEN here.dataset IS NOT NULL THEN coalesce(c.bytes, 0) END AS bytes_in_chunks,
    CASE WHEN here.dataset IS NOT NULL THEN coalesce(s.bytes, 0) END AS bytes_in_objects,
    datasets.at(here.updated_at) AS updated_at,
    CASE WHEN here.dataset IS NOT NULL THEN coalesce(s.n, 0) END AS rows_in_objects,
    (SELECT coalesce(stores.name, h.place::text) FROM (SELECT) AS one
        LEFT JOIN datasets.stores ON stores.id = h.place) AS place
FROM datasets.datasets d JOIN datasets.head h ON h.dataset = d.id
LEFT JOIN datasets.head here ON here.dataset = d.id AND here.place IS NULL
LEFT JOIN LATERAL (
    SELECT sum(n) AS n, sum(octet_length(times) + octet_length(body)) AS bytes
    FROM datasets.chunks WHERE dataset = d.id AND resolution = 0
) c ON true LEFT JOIN LATERAL (
    SELECT sum(n) AS n, sum(bytes) AS bytes FROM datasets.segments
    WHERE dataset = d.id AND resolution = 0
) s ON true;
COMMENT ON VIEW datasets.overview IS
    'A line for each dataset. place names the server that has its rows and buckets where that is not this one; then what is counted is on that server, and null here. rows counts all rows, rows_in_objects those of them that are on S3, which no view shows.';
