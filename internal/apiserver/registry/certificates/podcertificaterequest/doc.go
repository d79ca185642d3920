// Package podcertificaterequest serves PodCertificateRequests.
package podcertificaterequest
