//! TLS with a certificate and a key from files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read as what it should be.
    #[error("{} cannot be used as a {what}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// A certificate or a key.
        what: &'static str,
        /// The cause.
        why: String,
    },
    /// Certificate and key do not make a server.
    #[error("the certificate and the key cannot be used")]
    Unusable(#[source] rustls::Error),
}

/// Reads a certificate chain and its key.
pub fn tls_acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let wrong = |path: &Path, what, why: String| TlsError::File { path: path.to_owned(), what, why };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(certificate, "certificate", error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "certificate", "there is none in it".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, "key", error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private);
    let mut config = config.map_err(TlsError::Unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}
