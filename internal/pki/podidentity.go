package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
)

// PodIdentity is a pod with all that it depends on, in the order and with the
// tags that KEP-4317 gives them. An API server reads from it the pod of a
// certificate, and the objects that must exist for the certificate to be
// accepted.
type PodIdentity struct {
	Namespace          string `asn1:"utf8,tag:0"`
	NamespaceUID       string `asn1:"utf8,tag:1"`
	ServiceAccountName string `asn1:"utf8,tag:2"`
	ServiceAccountUID  string `asn1:"utf8,tag:3"`
	PodName            string `asn1:"utf8,tag:4"`
	PodUID             string `asn1:"utf8,tag:5"`
	NodeName           string `asn1:"utf8,tag:6"`
	NodeUID            string `asn1:"utf8,tag:7"`
}

// Extension returns the extension for a certificate's template. It is not
// critical, unlike in the KEP: the subject has the same information, and
// verifiers that do not support a critical extension would refuse the
// certificate.
func (p PodIdentity) Extension() (pkix.Extension, error) {
	value, err := asn1.Marshal(p)
	if err != nil {
		return pkix.Extension{}, fmt.Errorf("encoding the pod's identity: %w", err)
	}
	return pkix.Extension{Id: oidPodIdentity, Value: value}, nil
}

// PodIdentityOf returns the pod that a certificate is for, or nil if it has no
// pod identity.
func PodIdentityOf(cert *x509.Certificate) (*PodIdentity, error) {
	for _, extension := range cert.Extensions {
		if !extension.Id.Equal(oidPodIdentity) {
			continue
		}
		pod := &PodIdentity{}
		rest, err := asn1.Unmarshal(extension.Value, pod)
		if err == nil && len(rest) > 0 {
			err = errors.New("data follows it")
		}
		if err != nil {
			return nil, fmt.Errorf("reading the pod's identity: %w", err)
		}
		return pod, nil
	}
	return nil, nil
}
