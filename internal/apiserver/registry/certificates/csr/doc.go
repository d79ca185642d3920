// Package csr serves CertificateSigningRequests.
package csr
