package frontproxy

import (
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
)

const (
	// clientName is the common name of the certificate, and the only one for which
	// other API servers believe the headers.
	clientName = "front-proxy-client"
	caName     = "certplane-front-proxy"
)

// ca is replaced after eight months. Other API servers watch the ConfigMap; the propagation
// time of a day is for servers that are down during the change.
var ca = rotation.Own{Name: caName, Lifetime: 365 * 24 * time.Hour, Propagation: 24 * time.Hour}

// certificate is renewed after 16 hours.
var certificate = rotation.Leaf{
	Subject: pki.Subject{CommonName: clientName}, Usages: pki.ClientUsages(), Lifetime: 24 * time.Hour, RenewBefore: 8 * time.Hour,
}

// caKeys are the keys of the Secret.
var caKeys = rotation.Keys{
	Cert: corev1.TLSCertKey, Key: corev1.TLSPrivateKeyKey, NextCert: "next.crt", NextKey: "next.key", Former: "former.crt", TakesOver: "next.from",
}

// content returns the data of the ConfigMap, as kube-apiserver writes it: lists
// are JSON. Without any CAs of users, other API servers accept no certificates of
// users.
func content(users, proxies []*x509.Certificate) map[string]string {
	data := map[string]string{
		"requestheader-client-ca-file":       string(pki.EncodeCertificates(proxies...)),
		"requestheader-allowed-names":        `["` + clientName + `"]`,
		"requestheader-username-headers":     `["X-Remote-User"]`,
		"requestheader-uid-headers":          `["X-Remote-Uid"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	if len(users) > 0 {
		data["client-ca-file"] = string(pki.EncodeCertificates(users...))
	}
	return data
}
