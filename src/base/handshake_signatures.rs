//! The part that custom verifiers of certificates have in common: checking, with a provider's algorithms, that the peer
//! holds its certificate's private key.

/// Implements the methods of `ServerCertVerifier` and `ClientCertVerifier` that check a handshake's signature, with the
/// `WebPkiSupportedAlgorithms` of an expression over the verifier.
#[macro_export]
macro_rules! verify_handshake_signatures {
    ($verifier:ident => $algorithms:expr) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signature: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            let $verifier = self;
            ::rustls::crypto::verify_tls12_signature(message, certificate, signature, &$algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signature: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            let $verifier = self;
            ::rustls::crypto::verify_tls13_signature(message, certificate, signature, &$algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<::rustls::SignatureScheme> {
            let $verifier = self;
            $algorithms.supported_schemes()
        }
    };
}
