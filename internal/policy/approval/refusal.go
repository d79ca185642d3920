package approval

import (
	"fmt"
	"strings"
)

// NotPermittedError reports that a recogniser matches a request, but its
// requester lacks the permission for the approval. That can change.
type NotPermittedError struct {
	// User is the requester.
	User string
	// Recognisers are the recognisers that match the request; at least one.
	Recognisers []Recogniser
}

// Error names the missing permissions and the fix: an administrator has to grant the
// narrowest permission that is enough.
func (e *NotPermittedError) Error() string {
	return fmt.Sprintf("%s; to have such requests approved, bind ClusterRole %s to the user or to a group of it", e.Missing(), e.Recognisers[0].Role())
}

// Missing names the missing permissions.
func (e *NotPermittedError) Missing() string {
	var subresources []string
	for _, r := range e.Recognisers {
		subresources = append(subresources, "certificatesigningrequests/"+r.Name)
	}
	return fmt.Sprintf("user %q may not create %s", e.User, strings.Join(subresources, " or "))
}
