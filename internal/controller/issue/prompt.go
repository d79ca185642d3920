package issue

import (
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
)

const (
	// distrust is how long an issuer is not relied on that was expected to answer
	// at once and did not.
	distrust = 10 * time.Minute
	// maxPromptIssuers is how many issuers are remembered.
	maxPromptIssuers = 10000
)

// issuerRef is an issuer to which Certificates refer.
type issuerRef struct {
	namespace string
	ref       cmmeta.IssuerReference
}

func refOf(crt *cmv1.Certificate) issuerRef { return issuerRef{crt.Namespace, crt.Spec.IssuerRef} }

// promptIssuers are the issuers whose last certificate was in the answer to the
// creation of its request. It is safe for concurrent use.
type promptIssuers struct {
	mu sync.Mutex
	// all has since when an issuer is relied on. It can be in the future.
	all map[issuerRef]time.Time
}

// has reports whether the issuer of a Certificate can be expected to answer at
// once.
func (p *promptIssuers) has(crt *cmv1.Certificate, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, known := p.all[refOf(crt)]
	return known && !now.Before(since)
}

// note takes into account whether an issuer has answered at once, and whether it
// was expected to.
func (p *promptIssuers) note(crt *cmv1.Certificate, answered, expected bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	issuer := refOf(crt)
	since, known := p.all[issuer]
	switch {
	case !answered && expected:
		p.all[issuer] = now.Add(distrust)
	case !answered && !now.Before(since):
		delete(p.all, issuer)
	case answered && !known:
		for any := range p.all {
			if len(p.all) < maxPromptIssuers {
				break
			}
			delete(p.all, any)
		}
		p.all[issuer] = now
	}
}
