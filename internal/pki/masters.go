package pki

// Masters is the group that is above authorization. No signer gives it where
// API servers would believe the certificate.
const Masters = "system:masters"
