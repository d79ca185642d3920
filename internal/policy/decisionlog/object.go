package decisionlog

import (
	"encoding/json"
	"fmt"

	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// Object returns the JSON of the object that a request was made from, with its metadata
// and its spec. The spec contains the requester of the decision, which admission knows
// before it is stored.
func Object(r *request.Request) ([]byte, error) {
	k := requestkind.Of(r.Object)
	if k == nil {
		return nil, fmt.Errorf("a request made from a %T cannot be logged", r.Object)
	}
	return json.Marshal(k.Content(r.Object.(requestkind.Object), r.Requester))
}
