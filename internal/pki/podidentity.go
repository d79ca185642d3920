package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
)

// PodIdentity is a pod with all that it depends on, in the order and with the
// tags that KEP-4317 gives them. It tells an API server whose certificate it
// sees, and what has to exist for it to hold.
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
// critical, unlike the KEP's: the subject says the same to verifiers that do
// not know it, and they would refuse the certificate.
func (p PodIdentity) Extension() (pkix.Extension, error) {
	value, err := asn1.Marshal(p)
	if err != nil {
		return pkix.Extension{}, fmt.Errorf("encoding the pod's identity: %w", err)
	}
	return pkix.Extension{Id: oidPodIdentity, Value: value}, nil
}

// PodIdentityOf returns the pod that a certificate is for, or nil if it says
// nothing of pods.
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
