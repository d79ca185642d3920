package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SignerCA is the CA of a signer, or an endpoint that signs with its own CA.
//
// +kubebuilder:validation:XValidation:rule="[has(self.generated), has(self.secret), has(self.key), has(self.builtIn), has(self.webhook)].filter(set, set).size() == 1",message="exactly one of generated, secret, key, builtIn and webhook must be set"
type SignerCA struct {
	// generated is a CA that certplane generates, keeps in a Secret and
	// replaces before it expires.
	//
	// +optional
	Generated *GeneratedCA `json:"generated,omitempty"`
	// secret is a CA in a Secret of type kubernetes.io/tls. A changed Secret is
	// used as soon as its key and certificate belong together.
	//
	// +optional
	Secret *SecretCA `json:"secret,omitempty"`
	// key is a CA whose key is on a PKCS#11 token or in a cloud's key
	// management service.
	//
	// +optional
	Key *KeyCA `json:"key,omitempty"`
	// builtIn is the CA of the built-in signers of kubernetes.io: the one that
	// API servers trust for client certificates.
	//
	// +optional
	BuiltIn *BuiltInCA `json:"builtIn,omitempty"`
	// webhook is an HTTPS endpoint that signs: see docs/webhook-signer.md.
	//
	// +optional
	Webhook *WebhookCA `json:"webhook,omitempty"`
}

// GeneratedCA is a CA that certplane generates.
type GeneratedCA struct {
	// secretName is the Secret in which the CA is kept, in the namespace of
	// certplane's own service accounts. Default: "signer-" and the Signer's
	// name.
	//
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// commonName is the subject of the CA. Default: the signer's name.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	CommonName string `json:"commonName,omitempty"`
	// keyType is the type of the CA's key.
	//
	// +kubebuilder:default=ECDSAP256
	// +optional
	KeyType KeyType `json:"keyType,omitempty"`
	// lifetime is how long each CA is valid. At least 1h.
	//
	// +kubebuilder:default="87600h"
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Lifetime *metav1.Duration `json:"lifetime,omitempty"`
	// rotateBefore is how long before the expiry of a CA its successor starts to sign.
	// Default: a third of lifetime. At least the longest lifetime of a certificate;
	// otherwise certificates would get a shorter lifetime.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	RotateBefore *metav1.Duration `json:"rotateBefore,omitempty"`
	// propagation is how long the root of the next CA is published before that CA signs.
	// Set it to the time that people need to install roots where no agent does, such as
	// 336h. At most a tenth of lifetime. Default: declaredSigners.propagation in the
	// server's configuration.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Propagation *metav1.Duration `json:"propagation,omitempty"`
}

// SecretCA is a CA in a Secret.
type SecretCA struct {
	// name is the name of the Secret, in the namespace of certplane's own
	// service accounts. Its tls.crt holds the CA and the chain to its root, its
	// tls.key the key.
	//
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// KeyCA is a CA whose key is stored outside the API.
type KeyCA struct {
	// uri is the URI of the key, such as pkcs11:... or awskms:...: see
	// docs/ca-keys.md. Secrets such as PINs must not be part of it: they belong
	// in files that the URI names.
	//
	// +kubebuilder:validation:MinLength=1
	URI string `json:"uri"`
	// certificate is the CA and the chain to its root, in PEM.
	//
	// +kubebuilder:validation:MinLength=1
	Certificate string `json:"certificate"`
}

// BuiltInCA has no fields: there is only one such CA.
type BuiltInCA struct{}

// WebhookCA is an HTTPS endpoint that signs.
type WebhookCA struct {
	// url is the URL to which requests are sent. Its scheme is https.
	//
	// +kubebuilder:validation:Pattern=`^https://`
	URL string `json:"url"`
	// caBundle contains the roots to which the endpoint's certificate must chain, in PEM.
	// Default: the roots of the system.
	//
	// +optional
	CABundle string `json:"caBundle,omitempty"`
	// credentials is a Secret with a client certificate (tls.crt, tls.key) or a bearer
	// token (token), in the namespace of certplane's own service accounts.
	//
	// +optional
	Credentials *SecretCA `json:"credentials,omitempty"`
	// timeout is the time limit for one call.
	//
	// +kubebuilder:default="10s"
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// roots are the roots of the certificates that the endpoint issues, in PEM.
	// Required to publish trust bundles.
	//
	// +optional
	Roots string `json:"roots,omitempty"`
}
