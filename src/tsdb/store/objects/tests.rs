//! Objects in memory, addresses of buckets, and what the answers of a server mean.

use futures::FutureExt as _;
use task::group::Group;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use super::{
    test_server::{Conditions, TestServer},
    *,
};

#[tokio::test]
async fn ranges_are_read_in_their_order() {
    let objects = Objects::in_memory();
    let bytes: Bytes = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    objects.put("7/a", bytes.clone()).await.unwrap();

    let ranges = [3_000_000..3_000_004, 0..8, 8..8, 4..12, 3_999_996..4_000_000];
    let read = objects.read_ranges("7/a", &ranges).await.unwrap();
    let at = |position: u64| usize::try_from(position).unwrap();
    let wanted = ranges.map(|range| bytes.slice(at(range.start)..at(range.end)));
    assert_eq!(read, wanted);
    assert!(objects.read_ranges("7/a", &[]).await.unwrap().is_empty());
    assert!(objects.check().await.is_ok());
}

#[tokio::test]
async fn a_truncated_object_is_an_error() {
    let objects = Objects::in_memory();
    objects.put("7/a", Bytes::from_static(&[1; 100])).await.unwrap();
    for ranges in [[0..10, 90..101], [0..10, 100..101], [0..10, 500_000..500_001], [0..1, 40..200]]
    {
        let read = objects.read_ranges("7/a", &ranges).await;
        assert!(
            matches!(read, Err(ObjectError::Short { n_bytes: 100, .. })),
            "{ranges:?}: {read:?}"
        );
    }
    #[expect(clippy::reversed_empty_ranges, reason = "a damaged index may have one")]
    let read = objects.read_ranges("7/a", &[10..20, 8..4]).await;
    assert!(matches!(read, Err(ObjectError::Range { .. })), "{read:?}");
}

#[tokio::test]
async fn objects_are_listed_and_deleted() {
    let objects = Objects::in_memory();
    for key in ["7/b", "7/a", "70/a", "8/a"] {
        objects.put(key, Bytes::from_static(b"row")).await.unwrap();
    }
    let keys = async |folder: &str, after| {
        let found = objects.list(folder, after, 2).await.unwrap();
        assert!(found.iter().all(|object| object.n_bytes == 3));
        found.into_iter().map(|object| object.key).collect::<Vec<_>>()
    };
    assert_eq!(keys("7", None).await, ["7/a", "7/b"]);
    assert_eq!(keys("", None).await, ["7/a", "7/b"]);
    assert_eq!(keys("", Some("7/b")).await, ["70/a", "8/a"]);

    objects.delete("7/b").await.unwrap();
    objects.delete("7/b").await.unwrap();
    assert_eq!(keys("7", None).await, ["7/a"]);
    let read = objects.read_ranges("7/b", from_ref(&(0..1))).await;
    assert!(matches!(read, Err(ObjectError::Missing { .. })), "{read:?}");

    objects.read_ranges("7/a", &[0..1, 1..3]).await.unwrap();
    let counted = ObjectFigures {
        n_written: 4,
        bytes_written: 12,
        bytes_read: 3,
        n_deleted: 2,
        n_failed: 1,
        is_lost: false,
        is_foreign: false,
    };
    assert_eq!(objects.figures(), counted);
}

#[test]
fn an_address_is_shown_as_it_was_given() {
    for text in [
        "s3://rows",
        "s3://rows/team/a",
        "s3://rows?endpoint=http://127.0.0.1:9000",
        "s3://rows/team?endpoint=https://s3.example.org&region=eu-central-1",
    ] {
        assert_eq!(text.parse::<ColdUrl>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "rows",
        "s3://",
        "https://rows",
        "s3://rows:9000",
        "s3://rows#a",
        "s3://rows?secret=a",
        "s3://rows?region=",
        "s3://rows?endpoint=10.0.0.9:9000",
        "s3://rows?region=a&region=b",
    ] {
        assert_eq!(text.parse::<ColdUrl>(), Err(ColdUrlError::Form), "{text}");
    }
    for text in ["s3://key:secret@rows", "s3://rows?endpoint=http://key:secret@host"] {
        let error = text.parse::<ColdUrl>().unwrap_err();
        assert_eq!(error, ColdUrlError::Credentials);
        assert!(!error.to_string().contains("secret@"), "{error}");
    }
}

/// What a server answers, one answer a request and the last one from then on, makes of a read.
async fn read_of(answers: &'static [&'static str]) -> Result<Vec<Bytes>> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("s3://rows?endpoint=http://{}", listener.local_addr().unwrap());
    let group = Group::default();
    group.spawn("server", serve(listener, answers).map(|_| ()));
    let credentials =
        AmazonS3Builder::new().with_access_key_id("key").with_secret_access_key("a secret");
    let objects = Objects::connect(&url.parse().unwrap(), credentials).unwrap();
    assert!(!format!("{objects:?}").contains("secret"));
    objects.read_ranges("7/a", from_ref(&(4..8))).await
}

async fn serve(listener: TcpListener, answers: &[&str]) -> std::io::Result<()> {
    for i in 0.. {
        let (connection, _) = listener.accept().await?;
        let answer = answers.get(i).or(answers.last()).copied().unwrap_or_default();
        reply(connection, answer).await?;
    }
    Ok(())
}

async fn reply(connection: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let mut line = String::new();
    while connection.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let (status, body) = answer.split_once(' ').unwrap();
    let head =
        format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close", body.len());
    let more =
        "content-range: bytes 4-7/9\r\netag: a\r\nlast-modified: Tue, 24 Nov 2026 03:00:00 GMT";
    connection.write_all(format!("{head}\r\n{more}\r\n\r\n{body}").as_bytes()).await?;
    connection.shutdown().await?;
    connection.read_to_end(&mut Vec::new()).await.map(|_| ())
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again() {
    let read = read_of(&["503 <Error><Code>SlowDown</Code></Error>", "500 ", "206 rows"]).await;
    assert_eq!(read.unwrap(), ["rows"]);
}

#[tokio::test]
async fn what_a_server_answers_has_a_meaning() {
    let read = read_of(&["403 <Error><Code>SignatureDoesNotMatch</Code><StringToSign>key"]).await;
    let Err(ObjectError::Denied(cause)) = read else { panic!("{read:?}") };
    assert_eq!(cause.to_string(), "it answered with status 403 SignatureDoesNotMatch");

    let read = read_of(&["404 <Error><Code>NoSuchBucket</Code></Error>"]).await;
    assert!(matches!(read, Err(ObjectError::NoBucket(_))), "{read:?}");
    let read = read_of(&["404 <Error><Code>NoSuchKey</Code></Error>"]).await;
    assert!(matches!(read, Err(ObjectError::Missing { .. })), "{read:?}");
    let read = read_of(&["416 <Error><Code>InvalidRange</Code></Error>"]).await;
    assert!(matches!(read, Err(ObjectError::Failed(_))), "{read:?}");
    let read = read_of(&["200 all the rows"]).await;
    assert!(matches!(read, Err(ObjectError::Failed(_))), "{read:?}");
}

#[tokio::test]
async fn a_machine_that_gives_no_credentials_is_not_a_server_that_refuses_them() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let metadata = format!("http://{}", listener.local_addr().unwrap());
    let group = Group::default();
    group.spawn("metadata", serve(listener, &["403 no"]).map(|_| ()));
    let machine = AmazonS3Builder::new().with_metadata_endpoint(metadata);
    let objects =
        Objects::connect(&"s3://rows?endpoint=http://127.0.0.1:1".parse().unwrap(), machine);
    let put = objects.unwrap().put("7/a", Bytes::from_static(b"row")).await;
    let Err(error @ ObjectError::NoCredentials(_)) = put else { panic!("{put:?}") };
    assert!(error.advice().contains("AWS_ACCESS_KEY_ID"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("s3://rows?endpoint=http://{}", listener.local_addr().unwrap());
    drop(listener);
    let credentials = AmazonS3Builder::new().with_access_key_id("key").with_secret_access_key("s");
    let objects = Objects::connect(&url.parse().unwrap(), credentials).unwrap();
    let put = objects.put("7/a", Bytes::from_static(b"row")).await;
    let Err(ObjectError::Unreachable(cause)) = put else { panic!("{put:?}") };
    assert!(cause.to_string().starts_with("Connection refused"), "{cause}");
    assert!(objects.figures().is_lost);
}

/// With the bucket in `TRIPTYCH_TEST_BUCKET`, an address, and credentials in the environment.
#[tokio::test]
#[ignore = "needs an S3 server"]
async fn a_bucket_on_a_server_keeps_objects() {
    let url = std::env::var("TRIPTYCH_TEST_BUCKET").expect("TRIPTYCH_TEST_BUCKET names a bucket");
    let objects = Objects::open(&url.parse().unwrap()).unwrap();
    objects.check().await.unwrap();

    let folder = Uuid::new_v4().to_string();
    let key = format!("{folder}/{}", Uuid::new_v4());
    let bytes: Bytes = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
    objects.put(&key, bytes.clone()).await.unwrap();
    let read = objects.read_ranges(&key, &[0..4, 19_000_000..20_000_000, 4..8]).await.unwrap();
    assert_eq!(read, [bytes.slice(0..4), bytes.slice(19_000_000..), bytes.slice(4..8)]);
    for range in [19_999_999..20_000_001, 20_000_000..20_000_001, 30_000_000..30_000_001] {
        let read = objects.read_ranges(&key, from_ref(&range)).await;
        assert!(matches!(read, Err(ObjectError::Short { n_bytes: 20_000_000, .. })), "{read:?}");
    }
    let listed = objects.list(&folder, None, 10).await.unwrap();
    assert!(listed.len() == 1 && listed[0].key == key && listed[0].n_bytes == 20_000_000);
    assert!(objects.list(&folder, Some(&key), 10).await.unwrap().is_empty());
    objects.delete(&key).await.unwrap();
    objects.delete(&key).await.unwrap();
    let read = objects.read_ranges(&key, from_ref(&(0..1))).await;
    assert!(matches!(read, Err(ObjectError::Missing { .. })), "{read:?}");
}

/// Checks that an object is replaced only by a caller that knows its version, if conditions are honored.
async fn check_replaced(objects: &Objects, is_honored: bool) {
    assert_eq!(objects.honors_conditions().await.unwrap(), is_honored);
    assert_eq!(objects.read_version("owner").await.unwrap(), None);
    let put = async |text: &'static str, version| {
        objects.replace("owner", Bytes::from_static(text.as_bytes()), version).await.unwrap()
    };
    assert!(put("one", None).await);
    assert_eq!(put("two", None).await, !is_honored, "there is one");
    let (_, version) = objects.read_version("owner").await.unwrap().unwrap();
    assert!(put("three", Some(version.clone())).await);
    assert_eq!(put("four", Some(version)).await, !is_honored, "it is another one by now");
    let (bytes, version) = objects.read_version("owner").await.unwrap().unwrap();
    assert_eq!(bytes, if is_honored { "three" } else { "four" });
    objects.delete("owner").await.unwrap();
    assert_eq!(put("five", Some(version)).await, !is_honored, "it is gone");
    assert!(objects.list("check", None, 1).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_object_is_replaced_by_one_of_several_where_the_server_honors_conditions() {
    check_replaced(&Objects::in_memory(), true).await;
    check_replaced(&TestServer::start(Conditions::Honored).open(), true).await;
    check_replaced(&TestServer::start(Conditions::Ignored).open(), false).await;
}
