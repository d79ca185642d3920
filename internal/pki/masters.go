package pki

// Masters is the group that bypasses authorization. No signer issues a
// certificate with it if API servers would trust the certificate.
const Masters = "system:masters"
