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

// Records holds certificates that cannot be recorded, so that the next attempt does not sign
// another one. It is safe for concurrent use. Nil records nothing.
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

// A certificate is held for an hour, and a tenth of its lifetime, at most. Of more than mostHeld,
// with a few kilobytes each, others are signed again.
const longestHeld, heldShare, mostHeld = time.Hour, 10, 4096

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
		h, limit := r.held[types.UID(req.UID)], permitted.Lifetime.Max
		r.mu.Unlock()
		if now.Before(h.until) && (limit == nil || h.Certificate.NotAfter.Sub(h.Certificate.NotBefore) <= *limit) &&
			(permitted.Certificate == nil || permitted.Certificate(h.Certificate) == nil) {
			return h.Issued, nil
		}
		return sign(ctx, req, permitted, now)
	}
}

// put records a certificate that was signed at a time, or holds it. isNew is false if it was held
// before.
func (r *Records) put(ctx context.Context, of client.Object, issued *signer.Issued, signed time.Time) (isNew bool, err error) {
	err = r.record(ctx, of, issued.PEM)
	r.mu.Lock()
	defer r.mu.Unlock()
	isNew = r.held[of.GetUID()].Issued != issued
	maps.DeleteFunc(r.held, func(uid types.UID, h held) bool { return !signed.Before(h.until) || err == nil && uid == of.GetUID() })
	if isNew && err != nil && len(r.held) < mostHeld {
		r.held[of.GetUID()] = held{issued, signed.Add(min(longestHeld, issued.Certificate.NotAfter.Sub(signed)/heldShare))}
	}
	return isNew, err
}
