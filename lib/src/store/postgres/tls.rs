//! TLS for connections to the database.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::TlsMode;

/// Why TLS cannot be set up: a sentence with the file.
pub(super) type TlsProblem = String;

/// Makes the connector of a mode.
pub(super) fn connector(mode: &TlsMode) -> Result<MakeRustlsConnect, TlsProblem> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = match mode {
        // The connector is not used then.
        TlsMode::Off => builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
        TlsMode::Full(file) => {
            let roots = match file {
                Some(file) => roots_of(file)?,
                None => system_roots(),
            };
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        TlsMode::Unverified => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
            .with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots_of(file: &Path) -> Result<RootCertStore, TlsProblem> {
    let failed = |error: &dyn std::fmt::Display| format!("reading {} failed: {error}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))? {
        roots.add(certificate.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
    }
    if roots.is_empty() {
        return Err(format!("{} has no certificates", file.display()));
    }
    Ok(roots)
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    for error in loaded.errors {
        tracing::warn!("certificates of the system: {error}");
    }
    roots.add_parsable_certificates(loaded.certs);
    roots
}

/// Accepts any certificate, since the address says `sslmode=require`: encrypted, not verified.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
