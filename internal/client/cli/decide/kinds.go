package decide

import (
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/rights"
)

// undecided is a request of a kind.
type undecided struct {
	rights.Kind
	of     *requestkind.Kind
	object client.Object
}

func newUndecided(kind rights.Kind) *undecided {
	of := requestkind.Named(v1alpha1.RequestKind(kind.Name))
	return &undecided{kind, of, of.New()}
}

// set writes a decision to the object. It returns requestkind.ErrDecided if the request
// is decided already.
func (r *undecided) set(d Decision, now time.Time) error {
	return r.of.Decide(r.object, quorum.Condition{Type: string(d.Kind), Status: "True", Reason: d.Reason, Message: d.Message}, now)
}

// waits returns the further approvals that the server's answer requires; empty if the
// decision is final.
func (r *undecided) waits(d Decision) string {
	conditions := r.of.Conditions(r.object)
	find := func(kind string) int {
		return slices.IndexFunc(conditions, func(c quorum.Condition) bool { return c.Type == kind })
	}
	awaiting := find(quorum.AwaitingApproval)
	if awaiting < 0 || find(string(d.Kind)) >= 0 {
		return ""
	}
	return conditions[awaiting].Message
}
