// Package profile decides which certificate a declared signer issues for a
// request.
//
// A profile is compiled once from a Signer, and evaluated for each request.
// Both depend only on their arguments: they use no clock, no API and no
// randomness.
package profile

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// Profile is a compiled Signer. It is safe for concurrent use.
type Profile struct {
	requests    []v1alpha1.RequestKind
	subject     subject
	names       names
	rules       []rule
	annotations []string
	keyTypes    []v1alpha1.KeyType
	usages      pki.Usages
	usageNames  []string
	ignoreCAs   bool
	ignoreOther bool
	lifetime    lifetime
	refresh     refresh
	// privileged is set if API servers trust the CA.
	privileged bool
	// podSpec is set if an expression may read a pod's spec.
	podSpec bool
	// services is set if an expression may read services.
	services bool
	// order is set if an expression may read the order of an ACME client.
	order bool
	// requester is set if an expression may read the requester.
	requester bool
	// path is the path of the spec's profile, requestsPath the path of its
	// requests.
	path, requestsPath *field.Path
}

// subject contains the expressions for the parts of the subject; nil yields nothing.
type subject struct {
	fromRequest                                    bool
	commonName, organizations, organizationalUnits *compiled
}

// names contains the expressions for the alternative names; nil yields nothing.
type names struct {
	dns, ips, uris, emails *compiled
}

// rule is a condition that a request must meet.
type rule struct {
	holds             *compiled
	message           string
	messageExpression *compiled
	reason            string
	field             string
}

// lifetime contains the limits of the lifetime of certificates.
type lifetime struct {
	maximum, normal, backdate time.Duration
}

// Compile returns the profile of the Signer with this spec, which is located at
// path. Errors name each invalid field and what is valid; a spec with errors
// has no profile.
func Compile(spec v1alpha1.SignerSpec, path *field.Path) (*Profile, field.ErrorList) {
	errs := validate(spec, path)
	p, more := compile(spec, path)
	if errs = append(errs, more...); len(errs) > 0 {
		return nil, errs
	}
	return p, nil
}

func compile(spec v1alpha1.SignerSpec, root *field.Path) (*Profile, field.ErrorList) {
	profile, path := spec.Profile, root.Child("profile")
	c := newCompiler(spec.Requests)
	p := &Profile{
		requests:    spec.Requests,
		subject:     c.subject(profile.Subject, path.Child("subject")),
		names:       c.names(profile.Names, path.Child("names")),
		rules:       c.rules(profile.Rules, path.Child("rules")),
		annotations: profile.Annotations,
		keyTypes:    KeyTypesOf(profile),
		usageNames:  profile.Usages,
		ignoreCAs:   profile.CertificateAuthorities == v1alpha1.IgnoreCAs,
		ignoreOther: profile.Extensions == v1alpha1.IgnoreExtensions,
		lifetime:    lifetimeOf(profile.Lifetime),
		refresh:     refreshOf(profile.Refresh),
		privileged:  spec.CA.BuiltIn != nil || spec.SignerName == APIServerClientPod,
		path:        path,

		requestsPath: root.Child("requests"),
	}
	p.podSpec, p.services, p.order, p.requester = c.podSpec, c.services, c.order, c.requester
	// Unknown usages are reported by validate.
	p.usages, _ = pki.ParseUsages(profile.Usages)
	return p, c.errs
}

// The defaults of the CRD, so that a spec that did not pass through an API server means
// the same.
const (
	defaultMaximum  = 24 * time.Hour
	defaultBackdate = 2 * time.Minute
	defaultPercent  = 66
	defaultJitter   = 10
)

// KeyTypesOf returns the types of keys that get certificates.
func KeyTypesOf(declared v1alpha1.SignerProfile) []v1alpha1.KeyType {
	if len(declared.KeyTypes) > 0 {
		return declared.KeyTypes
	}
	return []v1alpha1.KeyType{
		v1alpha1.RSA3072, v1alpha1.RSA4096, v1alpha1.ECDSAP256, v1alpha1.ECDSAP384, v1alpha1.ECDSAP521, v1alpha1.ED25519,
	}
}

func lifetimeOf(declared v1alpha1.LifetimeProfile) lifetime {
	l := lifetime{maximum: defaultMaximum, backdate: defaultBackdate}
	if declared.Maximum != nil {
		l.maximum = declared.Maximum.Duration
	}
	l.normal = l.maximum
	if declared.Default != nil {
		l.normal = declared.Default.Duration
	}
	if declared.Backdate != nil {
		l.backdate = declared.Backdate.Duration
	}
	return l
}

func refreshOf(declared v1alpha1.RefreshProfile) refresh {
	r := refresh{percent: defaultPercent, jitter: defaultJitter}
	if declared.AtPercent != 0 {
		r.percent = int64(declared.AtPercent)
	}
	if declared.JitterPercent != nil {
		r.jitter = int64(*declared.JitterPercent)
	}
	return r
}

// NeedsServices reports whether decisions can depend on Request.Services, which
// are expensive to find.
func (p *Profile) NeedsServices() bool { return p.services }

// NeedsOrder reports whether decisions can depend on Request.Order, which has to be
// read from the API.
func (p *Profile) NeedsOrder() bool { return p.order }

// NeedsRequester reports whether decisions can depend on the requester.
func (p *Profile) NeedsRequester() bool { return p.requester }

// Longest returns the longest lifetime of a certificate.
func (p *Profile) Longest() time.Duration { return p.lifetime.maximum }

// Older reports whether a, and not b, signs if both have one signer name: which two API
// servers can admit at the same time.
func Older(a, b *v1alpha1.Signer) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
