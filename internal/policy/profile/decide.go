package profile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/duration"
)

// Decide returns the certificate for a request, or a *Refusal. A request for something
// that the certificate would not contain is refused, unless the Signer is configured to
// omit it.
func (p *Profile) Decide(f request.Request) (*Certificate, error) {
	return p.DecideWithin(f, request.LifetimeLimits{})
}

// DecideWithin is Decide with the lifetime that policies leave to the Signer.
func (p *Profile) DecideWithin(f request.Request, limits request.LifetimeLimits) (*Certificate, error) {
	cert, refusal := p.decide(f, limits)
	if refusal != nil {
		return nil, refusal
	}
	return cert, nil
}

func (p *Profile) decide(f request.Request, limits request.LifetimeLimits) (*Certificate, *Refusal) {
	for _, check := range []func(request.Request) *Refusal{
		p.checkKind, p.checkWhole, p.checkKey, p.checkRequest, p.checkAnnotations,
	} {
		if refusal := check(f); refusal != nil {
			return nil, refusal
		}
	}
	cert := &Certificate{Key: f.Key, refresh: p.refresh}
	lifetime := func(cert *Certificate, f request.Request) *Refusal { return p.decideLifetime(cert, f, limits) }
	for _, decide := range []func(*Certificate, request.Request) *Refusal{
		p.decideUsages, lifetime, p.decideIdentity, p.checkRequested, p.checkNamed,
	} {
		if refusal := decide(cert, f); refusal != nil {
			return nil, refusal
		}
	}
	return cert, nil
}

// at returns the path of a field of the profile.
func (p *Profile) at(field string, more ...string) string {
	return p.path.Child(field, more...).String()
}

func (p *Profile) checkKind(f request.Request) *Refusal {
	if slices.Contains(p.requests, f.Kind) {
		return nil
	}
	return refuse(ReasonUnservedKind, p.requestsPath.String(), "the signer does not serve requests of the kind %s", f.Kind)
}

// checkWhole refuses a request whose objects were not looked up: an expression
// must not treat them as missing.
func (p *Profile) checkWhole(f request.Request) *Refusal {
	known := f.Pod != nil && f.ServiceAccount != nil && f.Node != nil && f.NamespaceObject != nil
	if f.Kind == v1alpha1.PodCertificateRequests && !known {
		return refuse(ReasonInvalidRequest, p.path.String(), "the pod, its service account, node and namespace are not all known")
	}
	return nil
}

func (p *Profile) checkKey(f request.Request) *Refusal {
	kind := pki.KubernetesKeyType(f.Key)
	if !slices.Contains(p.keyTypes, v1alpha1.KeyType(kind)) {
		return refuse(ReasonUnsupportedKeyType, p.at("keyTypes"), "the signer does not support keys of the type %s: use one of %s", kind, join(p.keyTypes))
	}
	if err := pki.CheckPublicKey(f.Key, 0); err != nil {
		return refuse(ReasonUnsupportedKeyType, p.at("keyTypes"), "%v", err)
	}
	return nil
}

// checkRequest requires proof that the requester has the key.
func (p *Profile) checkRequest(f request.Request) *Refusal {
	switch {
	case f.PKCS10 == nil && f.Kind == v1alpha1.PodCertificateRequests:
		return nil // the API server has verified the proof
	case f.PKCS10 == nil:
		return refuse(ReasonInvalidRequest, p.path.String(), "there is no PKCS#10 request")
	case !pki.SameKey(f.PKCS10.PublicKey, f.Key):
		return refuse(ReasonInvalidRequest, p.path.String(), "the PKCS#10 request is for another key")
	}
	if err := pki.VerifyRequest(f.PKCS10.CertificateRequest); err != nil {
		return refuse(ReasonInvalidRequest, p.path.String(), "verifying the PKCS#10 request's signature: %v", err)
	}
	return nil
}

func (p *Profile) checkAnnotations(f request.Request) *Refusal {
	for _, key := range slices.Sorted(maps.Keys(f.Annotations)) {
		switch {
		case slices.Contains(p.annotations, key):
		case len(p.annotations) == 0:
			return refuse(ReasonInvalidAnnotations, p.at("annotations"), "the signer accepts no annotations, and the request has %q", key)
		default:
			return refuse(ReasonInvalidAnnotations, p.at("annotations"), "the signer does not accept the annotation %q: it accepts %s", key, join(p.annotations))
		}
	}
	return nil
}

// decideUsages gives a CertificateSigningRequest the usages that it requests,
// and a pod all usages that its type of key permits: only RSA keys can be used
// for encipherment (RFC 8813 section 3, RFC 9295 section 3).
func (p *Profile) decideUsages(cert *Certificate, f request.Request) *Refusal {
	if f.Kind == v1alpha1.PodCertificateRequests {
		cert.Usages = pki.Usages{Key: p.usages.Key, Extended: slices.Clone(p.usages.Extended)}
		if !strings.HasPrefix(pki.KubernetesKeyType(f.Key), "RSA") {
			cert.Usages.Key &^= encipherment
		}
		if cert.Usages.Key == 0 && p.usages.Key != 0 { // without the extension, verifiers would accept all
			return refuse(ReasonUnsupportedKeyType, p.at("usages"), "keys of the type %s have none of the signer's key usages: use an RSA key", pki.KubernetesKeyType(f.Key))
		}
		return nil
	}
	if len(f.Usages) == 0 {
		return refuse(ReasonUsages, p.at("usages"), "the request asks for no usages: the signer permits %s", join(p.usageNames))
	}
	for _, name := range f.Usages {
		asked, err := pki.ParseUsages([]string{name})
		if err != nil || !contains(p.usages, asked) {
			return refuse(ReasonUsages, p.at("usages"), "the signer does not permit the usage %q: it permits %s", name, join(p.usageNames))
		}
	}
	usages, err := pki.ParseUsages(f.Usages)
	if err != nil { // each has been parsed
		return refuse(ReasonUsages, p.at("usages"), "%v", err)
	}
	cert.Usages = usages
	return nil
}

// decideLifetime shortens a requested duration to the permitted maximum, as the
// API documents, and to that of policies.
func (p *Profile) decideLifetime(cert *Certificate, f request.Request, limits request.LifetimeLimits) *Refusal {
	lifetime := p.lifetime.normal
	if asked := limits.Within(f.Duration); asked != nil {
		lifetime = min(*asked, p.lifetime.maximum)
	}
	if max := limits.Max; max != nil {
		lifetime = min(lifetime, *max)
	}
	lifetime = lifetime.Truncate(time.Second)
	if f.Kind == v1alpha1.PodCertificateRequests && lifetime < minPodLifetime {
		return refuse(ReasonLifetime, p.at("lifetime"), "a pod's certificate must live for at least 1h, and the request asks for %s", duration.Format(lifetime))
	}
	if lifetime < minLifetime {
		return refuse(ReasonLifetime, p.at("lifetime"), "a certificate must live for at least %s, and the request asks for %s", duration.Format(minLifetime), duration.Format(lifetime))
	}
	cert.Duration = lifetime
	// The part of the lifetime that is in the past has no use.
	cert.Backdate = min(p.lifetime.backdate, lifetime/2).Truncate(time.Second)
	return nil
}

// decideIdentity evaluates the expressions: first whether to issue a
// certificate, then with which names.
func (p *Profile) decideIdentity(cert *Certificate, f request.Request) *Refusal {
	ev := p.evaluation(f)
	if refusal := p.checkRules(ev); refusal != nil {
		return refusal
	}
	if refusal := p.decideSubject(cert, ev, f); refusal != nil {
		return refusal
	}
	return p.decideNames(cert, ev)
}

func (p *Profile) checkRules(ev evaluation) *Refusal {
	for _, r := range p.rules {
		holds, refusal := ev.bool(r.holds)
		if refusal != nil {
			return refusal
		}
		if !holds {
			return &Refusal{Reason: r.reason, Field: r.field, Message: r.text(ev)}
		}
	}
	return nil
}

// maxMessage is less than the limit for messages of conditions.
const maxMessage = 5 * 1024

// text returns the message for the requester. An expression that fails, or
// whose message has more than one line, must not hide the refusal.
func (r rule) text(ev evaluation) string {
	if r.messageExpression == nil {
		return r.message
	}
	text, refusal := ev.string(r.messageExpression)
	text = strings.TrimSpace(text)
	if refusal != nil || text == "" || strings.ContainsAny(text, "\r\n") {
		return r.message
	}
	return text[:min(len(text), maxMessage)]
}

func join[S ~string](values []S) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}

// minPodLifetime is the minimum of the API (KEP-4317). minLifetime is the
// minimum for a CertificateSigningRequest.
const (
	minPodLifetime = time.Hour
	minLifetime    = 10 * time.Minute
)
