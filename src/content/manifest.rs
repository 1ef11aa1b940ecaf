//! Manifests, from which b7s nodes install functions.
//!
//! `deployment.uri` and `deployment.checksum` name an archive. The older members `runtime.url` and
//! `runtime.checksum` take precedence if `runtime.url` is not empty. Of the other members, only the name
//! is used.

use data_encoding::HEXLOWER_PERMISSIVE;
use model::function::content::{Codec, ContentId};
use reqwest::Url;
use serde::Deserialize;

use super::error::{ContentError, shorten};

/// File name of manifests in directories and archives.
pub(super) const FILE_NAME: &str = "manifest.json";

/// Maximum size of a manifest. Real manifests have a few hundred bytes.
pub(super) const BYTES_MAX: usize = 1024 * 1024;

/// The members of a manifest that are used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Human-readable name of the function, which can be empty.
    pub(super) name: String,
    /// Location of the archive: an address, or a path on the manifest's host.
    pub(super) archive: String,
    /// SHA-256 of the archive, as the id of a block.
    pub(super) block: ContentId,
}

#[derive(Deserialize)]
struct ManifestBody {
    name: Option<String>,
    deployment: Option<ArchivePlace>,
    runtime: Option<ArchivePlace>,
}

#[derive(Deserialize)]
struct ArchivePlace {
    #[serde(alias = "uri")]
    url: Option<String>,
    checksum: Option<String>,
}

impl Manifest {
    /// Parses a manifest.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, ContentError> {
        if bytes.len() > BYTES_MAX {
            return Err(ContentError::TooMuch { what: "bytes of a manifest", max: BYTES_MAX });
        }
        let body: ManifestBody = serde_json::from_slice(bytes)?;
        let has_address =
            |place: &ArchivePlace| place.url.as_ref().is_some_and(|url| !url.is_empty());
        let places = [body.runtime, body.deployment].into_iter().flatten();
        let missing = || ContentError::Malformed { what: "address of the archive in the manifest" };
        let place = places.into_iter().find(has_address).ok_or_else(missing)?;
        Ok(Self {
            name: body.name.unwrap_or_default(),
            archive: place.url.unwrap_or_default(),
            block: checksum(&place.checksum.unwrap_or_default())?,
        })
    }

    /// Returns the archive's address. An address without a host is relative to the address of the
    /// manifest.
    pub(super) fn archive_url(&self, manifest: &Url) -> Result<Url, ContentError> {
        let wrong = |_| ContentError::Path { path: shorten(&self.archive) };
        match self.archive.parse::<Url>() {
            Ok(url) => Ok(url),
            Err(_) => manifest
                .join("/")
                .and_then(|root| root.join(self.archive.trim_start_matches('/')))
                .map_err(wrong),
        }
    }

    /// Returns the archive's path relative to the manifest's directory, or `None` if the address of the
    /// archive is not such a path.
    pub(super) fn archive_path(&self) -> Option<String> {
        match self.archive.parse::<Url>() {
            Ok(url) => {
                let segments: Vec<&str> = url.path_segments()?.collect();
                match segments.as_slice() {
                    // https://<gateway>/ipfs/<content id>/<path>
                    ["ipfs", _, path @ ..] if !path.is_empty() => Some(path.join("/")),
                    path => Some(path.join("/")),
                }
            }
            Err(_) => Some(self.archive.trim_start_matches('/').to_owned()),
        }
    }
}

/// Parses a hexadecimal SHA-256 and returns it as the id of a raw block.
fn checksum(text: &str) -> Result<ContentId, ContentError> {
    let wrong = || ContentError::Malformed { what: "SHA-256 of the archive in the manifest" };
    let digest = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).map_err(|_| wrong())?;
    let digest = digest.try_into().map_err(|_| wrong())?;
    Ok(ContentId::from_digest(Codec::Raw, digest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The SHA-256 of empty content.
    const SUM: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn read(json: &str) -> Result<Manifest, String> {
        Manifest::read(json.replace("SUM", SUM).as_bytes()).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(manifest: &str, json: &str, want: &str) {
        let url = read(json).unwrap().archive_url(&manifest.parse().unwrap()).unwrap();
        assert_eq!(url.as_str(), want);
    }

    #[test]
    fn archive_address_is_resolved_like_on_b7s_nodes() {
        let at = "https://example.com/manifest-address";
        let relative = r#"{"runtime":{"url":"runtime-address","checksum":"SUM"}}"#;
        check(at, relative, "https://example.com/runtime-address");
        check("https://example.com/a/b/m.json", relative, "https://example.com/runtime-address");
        let both = r#"{"runtime":{"url":"https://a.example/x","checksum":"SUM"},
            "deployment":{"uri":"https://b.example/y","checksum":"SUM"}}"#;
        check(at, both, "https://a.example/x");
        let empty = r#"{"runtime":{"url":"","checksum":""},
            "deployment":{"uri":"https://b.example/y","checksum":"SUM"},"limited_fuel":1}"#;
        check(at, empty, "https://b.example/y");
    }

    #[test]
    fn content_id_of_an_archive_is_derived_from_the_checksum_in_the_manifest() {
        let json = r#"{"name":"n","runtime":{"url":"x","checksum":"SUM"}}"#;
        let manifest = read(&json.replace("SUM", &SUM.to_uppercase())).unwrap();
        assert_eq!(manifest.block, ContentId::from_block(Codec::Raw, b""));
        assert_eq!(manifest.name, "n");
    }

    #[test]
    fn manifest_without_archive_or_checksum_is_rejected() {
        let cases = [
            "{}",
            "[]",
            r#"{"runtime":{"url":"x"}}"#,
            r#"{"runtime":{"url":"x","checksum":"00"}}"#,
            r#"{"runtime":{"checksum":"SUM"}}"#,
        ];
        for json in cases {
            assert!(read(json).is_err(), "{json}");
        }
    }

    #[test]
    fn archive_path_is_relative_to_the_package_for_any_kind_of_address() {
        for address in [
            "/x/y.tar.gz",
            "x/y.tar.gz",
            "https://w3s.example/ipfs/bafy/x/y.tar.gz",
            "https://bafy.ipfs.w3s.example/x/y.tar.gz",
        ] {
            let json = format!(r#"{{"runtime":{{"url":"{address}","checksum":"SUM"}}}}"#);
            assert_eq!(read(&json).unwrap().archive_path().unwrap(), "x/y.tar.gz", "{address}");
        }
    }

    proptest! {
        #[test]
        fn parsing_an_arbitrary_manifest_does_not_panic(
            json in r#"[{}\[\]":,a-z0-9]{0,60}"#, url: String,
        ) {
            drop(Manifest::read(json.as_bytes()));
            let body = serde_json::json!({"runtime": {"url": url, "checksum": SUM}}).to_string();
            if let Ok(manifest) = Manifest::read(body.as_bytes()) {
                drop(manifest.archive_url(&"https://example.com/m".parse().unwrap()));
                drop(manifest.archive_path());
            }
        }
    }
}
