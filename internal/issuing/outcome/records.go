package outcome

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
)

// Record records the certificate of a request, in PEM, perhaps with a chain. If it fails, the
// certificate is not stored, and the request waits. It is safe for concurrent use, and does not
// change the request.
type Record func(ctx context.Context, request client.Object, certificate []byte) error

// Records records certificates and holds those that cannot be recorded, so that the next attempt
// does not sign another one. It is safe for concurrent use. Nil records nothing.
type Records struct {
	record Record
	mu     sync.Mutex // guards held
	held   map[types.UID]held
}

// held is a certificate that waits for its record until a time; then another one is signed.
type held struct {
	*signer.Issued
	until time.Time
}

const (
	// longestHeld is how long a certificate is held, and heldShare the part of its lifetime:
	// the requester gets the rest.
	longestHeld = time.Hour
	heldShare   = 10
	// mostHeld is how many certificates are held, of a few kilobytes each. More are signed again.
	mostHeld = 4096
)

// NewRecords returns Records that calls record.
func NewRecords(record Record) *Records {
	return &Records{record: record, held: map[types.UID]held{}}
}

// Sign returns a signer that answers with the certificate that is held for a request, if it is
// permitted, and otherwise asks sign.
func (r *Records) Sign(sign signer.Sign) signer.Sign {
	if r == nil {
		return sign
	}
	return func(ctx context.Context, req request.Request, permitted signer.Permission, now time.Time) (*signer.Issued, error) {
		r.mu.Lock()
		h, ok := r.held[types.UID(req.UID)]
		r.mu.Unlock()
		if ok && now.Before(h.until) && permits(permitted, h.Issued) {
			return h.Issued, nil
		}
		return sign(ctx, req, permitted, now)
	}
}

func permits(p signer.Permission, issued *signer.Issued) bool {
	cert := issued.Certificate
	return (p.Lifetime.Max == nil || cert.NotAfter.Sub(cert.NotBefore) <= *p.Lifetime.Max) && (p.Certificate == nil || p.Certificate(cert) == nil)
}

// put records a certificate that was signed at a time. If that fails, it is held; isNew is false
// if it was held before.
func (r *Records) put(ctx context.Context, request client.Object, issued *signer.Issued, signed time.Time) (isNew bool, err error) {
	err = r.record(ctx, request, issued.PEM)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[request.GetUID()].Issued == issued {
		if err == nil {
			delete(r.held, request.GetUID())
		}
		return false, err
	}
	if err != nil {
		maps.DeleteFunc(r.held, func(_ types.UID, h held) bool { return !signed.Before(h.until) })
		if cert := issued.Certificate; len(r.held) < mostHeld {
			r.held[request.GetUID()] = held{issued, signed.Add(min(longestHeld, cert.NotAfter.Sub(signed)/heldShare))}
		}
	}
	return true, err
}
