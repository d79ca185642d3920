package shim

import (
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// IngressSettings is the stanza "certManager.ingressShim".
type IngressSettings struct {
	// defaultIssuerName is the issuer of Ingresses that select no issuer by an annotation.
	// Default: none.
	DefaultIssuerName string `json:"defaultIssuerName,omitempty"`
	// defaultIssuerKind is the kind of this issuer. Default: Issuer.
	DefaultIssuerKind string `json:"defaultIssuerKind"`
	// defaultIssuerGroup is the API group of issuers, unless an annotation sets it.
	// Default: cert-manager.io.
	DefaultIssuerGroup string `json:"defaultIssuerGroup"`
	// autoAnnotations are annotations that request Certificates for an Ingress if their value
	// is true. They have no effect on Gateways. Default: kubernetes.io/tls-acme.
	AutoAnnotations []string `json:"autoAnnotations"`
	// copiedAnnotations are copied from Ingresses, Gateways and ListenerSets to their
	// Certificates. Default: none.
	CopiedAnnotations []string `json:"copiedAnnotations,omitempty"`
}

// GatewaySettings is the stanza "certManager.gatewayShim". The default issuer and the copied
// annotations are those of ingressShim.
type GatewaySettings struct {
	// extraProtocols are the protocols of listeners, in addition to HTTPS and TLS, that get
	// Certificates. Default: none.
	ExtraProtocols []string `json:"extraProtocols,omitempty"`
	// listenerSets creates Certificates also for ListenerSets, if the cluster has this kind.
	// Default: true.
	ListenerSets bool `json:"listenerSets"`
	// allowedListeners is Enforce to create Certificates only for ListenerSets that
	// spec.allowedListeners of their Gateway admits, or Ignore for all ListenerSets, as in
	// cert-manager. Default: Enforce.
	AllowedListeners string `json:"allowedListeners"`
}

// Values of GatewaySettings.AllowedListeners.
const (
	Enforce = "Enforce"
	Ignore  = "Ignore"
)

// DefaultIngressSettings returns the defaults.
func DefaultIngressSettings() IngressSettings {
	return IngressSettings{
		DefaultIssuerKind: cmv1.IssuerKind, DefaultIssuerGroup: cmv1.SchemeGroupVersion.Group,
		AutoAnnotations: []string{"kubernetes.io/tls-acme"},
	}
}

// DefaultGatewaySettings returns the defaults.
func DefaultGatewaySettings() GatewaySettings {
	return GatewaySettings{ListenerSets: true, AllowedListeners: Enforce}
}

// Validate returns an error for the first invalid value, with the name of its field.
func (s GatewaySettings) Validate() error {
	if s.AllowedListeners != Enforce && s.AllowedListeners != Ignore {
		return fmt.Errorf("certManager.gatewayShim.allowedListeners: %q must be %s or %s", s.AllowedListeners, Enforce, Ignore)
	}
	return nil
}
