//! IPFS gateways, which deliver functions as CARs. Every block is verified, so gateways need not be
//! trusted.

use std::error::Error as _;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use model::function::content::ContentId;
use reqwest::Url;
use task::causes::chain;
use tracing::{debug, info, warn};

use super::car::Blocks;
use super::dag::Dag;
use super::error::ContentError;
use super::fetch::LargeTurn;
use super::http::{ReadLimits, START_WITHIN, WebError};
use super::install::InstallError;
use super::verify::{NameHints, VerifiedFunction};
use super::{CAR_BYTES_MAX, Functions, FunctionsError, blocking};

/// Default gateways, which serve CARs to everyone.
pub const GATEWAYS_DEFAULT: [&str; 3] =
    ["https://trustless-gateway.link", "https://ipfs.io", "https://dweb.link"];

/// Maximum number of gateways to ask for a function.
pub(super) const GATEWAYS_MAX: usize = 8;

/// Time limit for the first bytes from a gateway, which first searches for the content among its own
/// peers.
const GATEWAY_WITHIN: Duration = Duration::from_secs(20);

/// Media type that gateways are asked for.
const CAR_TYPE: &str = "application/vnd.ipld.car; version=1; order=dfs; dups=n";

/// An IPFS gateway `https://<host>` with content at `/ipfs/<content id>`.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{}", _0.as_str().trim_end_matches('/'))]
pub struct Gateway(Url);

/// Error for a text that is not the address of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid IPFS gateway `{text}`, expected an address such as https://ipfs.io")]
pub struct GatewayError {
    text: String,
}

impl Gateway {
    /// Returns the gateway's host. Requests to hosts of configured gateways are permitted.
    pub(super) fn host(&self) -> Option<String> {
        self.0.host_str().map(str::to_owned)
    }

    fn car_url(&self, id: ContentId) -> Url {
        let mut url = self.0.clone();
        let path = format!("{}/ipfs/{id}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url.set_query(Some("format=car&dag-scope=all"));
        url
    }
}

impl FromStr for Gateway {
    type Err = GatewayError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || GatewayError { text: text.chars().take(120).collect() };
        let mut url: Url = text.trim().parse().map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong());
        }
        url.set_query(None);
        url.set_fragment(None);
        Ok(Self(url))
    }
}

impl Functions {
    /// Returns a function from the first gateway that delivers it completely.
    pub(super) async fn fetch_from_gateways(
        &self,
        id: ContentId,
        large: &mut LargeTurn<'_>,
    ) -> Option<VerifiedFunction> {
        for gateway in &self.0.gateways {
            if large.remaining().is_zero() {
                return None;
            }
            match self.fetch_from_gateway(gateway, id, large).await {
                Ok(checked) => {
                    info!(function = %id, %gateway, "fetched a function from a gateway");
                    return Some(checked);
                }
                Err(error) => {
                    let reason = chain(error.source().unwrap_or(&error));
                    if matches!(error, InstallError::Web(_) | InstallError::Crowded(_)) {
                        debug!(function = %id, %gateway, reason, "got no function from a gateway");
                    } else {
                        warn!(function = %id, %gateway, reason, "refused a function from a gateway");
                    }
                }
            }
        }
        None
    }

    async fn fetch_from_gateway(
        &self,
        gateway: &Gateway,
        id: ContentId,
        large: &mut LargeTurn<'_>,
    ) -> Result<VerifiedFunction, InstallError> {
        let wanted = ReadLimits {
            accept: CAR_TYPE,
            bytes_max: CAR_BYTES_MAX,
            // A gateway searches for the content before it sends anything.
            start_within: large.remaining().min(GATEWAY_WITHIN),
        };
        let car = self.0.web.read(&gateway.car_url(id), wanted, large).await?;
        let dag = blocking(move || Ok(Dag::read(id, &car)?)).await?;
        let blocks = dag.blocks.clone();
        let verify =
            |dag: Dag| move |max| VerifiedFunction::of_dag(NameHints::default(), dag.clone(), max);
        match large.verify(verify(dag)).await? {
            Err(FunctionsError::Content(ContentError::ArchiveElsewhere { address, block })) => {
                let archive = self.fetch_archive(&address, block, large).await?;
                let blocks: Blocks = blocks.into_iter().chain([(block, archive)]).collect();
                let dag = Dag { root: id, blocks };
                Ok(large.verify(verify(dag)).await??)
            }
            checked => Ok(checked?),
        }
    }

    /// Downloads the archive at an address. Returns the archive if it matches the id of its block.
    pub(super) async fn fetch_archive(
        &self,
        address: &str,
        block: ContentId,
        large: &mut LargeTurn<'_>,
    ) -> Result<Bytes, InstallError> {
        let wrong = |_| WebError::Address { text: address.chars().take(200).collect() };
        let url: Url = address.parse().map_err(wrong)?;
        let wanted = ReadLimits {
            accept: "*/*",
            bytes_max: super::FUNCTION_BYTES_MAX,
            start_within: START_WITHIN,
        };
        let archive = self.0.web.read(&url, wanted, large).await?;
        let checking = archive.clone();
        let is_right = blocking(move || Ok(block.names(&checking))).await?;
        if is_right {
            Ok(archive)
        } else {
            Err(FunctionsError::from(ContentError::Checksum).into())
        }
    }
}
