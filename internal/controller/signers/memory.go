package signers

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/process/worker"
)

// memory is the state of Signers as of their last reconciliation in this process. It is
// safe for concurrent use; each Signer is processed by one goroutine at a time.
type memory struct {
	mu      sync.Mutex // guards signers
	signers map[string]*signerMemory
}

type signerMemory struct {
	uid types.UID
	// profile and problem are the results of compiling the spec of this
	// generation.
	generation int64
	profile    *profile.Profile
	problem    *problem
	// issuer is the one in use, or nil.
	issuer *issuer
	// published is since when the root of the next CA is published.
	published rotation.Sightings
	// anchors are the roots of the issuer and of the earlier ones.
	anchors []rollover.Anchor
	// shown describes the signer that the process has now.
	shown string
	// reason is the reason of the last reported problem.
	reason string
	// warned are the warnings that a CA expires, by its fingerprint.
	warned worker.Seldom[string]
}

func newMemory() *memory { return &memory{signers: map[string]*signerMemory{}} }

// entry returns the memory of a Signer. It is empty if the name now belongs to another
// Signer.
func (m *memory) entry(s *v1alpha1.Signer) *signerMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.signers[s.Name]
	if known == nil || known.uid != s.UID {
		if known != nil {
			known.issuer.close()
		}
		known = &signerMemory{uid: s.UID}
		m.signers[s.Name] = known
	}
	return known
}

// hasAll reports whether the memory contains all of these.
func (m *memory) hasAll(all []v1alpha1.Signer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(all, func(s v1alpha1.Signer) bool { return m.signers[s.Name] == nil })
}

func (m *memory) forget(object string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.signers[object]; known != nil {
		known.issuer.close()
		delete(m.signers, object)
	}
}

// compile compiles the profile of a Signer once for each generation.
func (m *memory) compile(s *v1alpha1.Signer) (*profile.Profile, *problem) {
	known := m.entry(s)
	if known.profile == nil && known.problem == nil || known.generation != s.Generation {
		known.generation = s.Generation
		known.profile, known.problem = compile(s)
	}
	return known.profile, known.problem
}

// issuer returns the issuer of a Signer that is in use, or nil.
func (m *memory) issuer(s *v1alpha1.Signer) *issuer { return m.entry(s).issuer }

// setIssuer sets the issuer that is used from now on.
func (m *memory) setIssuer(s *v1alpha1.Signer, next *issuer) {
	known := m.entry(s)
	if next != known.issuer {
		known.issuer.close()
		known.issuer = next
	}
}

// roots returns the roots of an issuer, which can be nil, and the earlier roots that this
// process knows, while certificates under them are valid. Distrusted roots are omitted and
// forgotten.
func (m *memory) roots(s *v1alpha1.Signer, from *issuer, now time.Time, overlap time.Duration) []*x509.Certificate {
	known := m.entry(s)
	var today []*x509.Certificate
	if from != nil {
		today = from.roots()
	}
	today = slices.DeleteFunc(slices.Clone(today), func(root *x509.Certificate) bool { return distrusts(s, pki.Fingerprint(root)) })
	known.anchors = slices.DeleteFunc(rollover.Next(known.anchors, today, now, overlap), func(anchor rollover.Anchor) bool {
		return distrusts(s, pki.Fingerprint(anchor.Certificate))
	})
	return rollover.Certificates(known.anchors)
}

// firstEnd returns when the first of the earlier roots is removed; zero if
// there is none.
func (m *memory) firstEnd(s *v1alpha1.Signer) time.Time {
	var first time.Time
	for _, anchor := range m.entry(s).anchors {
		first = pki.Soonest(first, anchor.Until)
	}
	return first
}

// isChanged reports whether a signer differs from the one in use.
func (m *memory) isChanged(s *v1alpha1.Signer, signer *declared.Signer, st state) bool {
	text := &strings.Builder{}
	fmt.Fprintf(text, "%d %p %v %v ", s.Generation, st.issuer, signer.Unready, signer.Overlap > 0) // the generation covers distrusted CAs
	for _, root := range signer.Roots {
		fmt.Fprint(text, pki.Fingerprint(root), " ")
	}
	known := m.entry(s)
	if known.shown == text.String() {
		return false
	}
	known.shown = text.String()
	return true
}
