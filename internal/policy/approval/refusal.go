package approval

import (
	"fmt"
	"strings"
)

// NotPermittedError says that a request is known and its requester lacks the
// permission for it to be approved. That can change.
type NotPermittedError struct {
	// User is the requester.
	User string
	// Recognisers are those that know the request; at least one.
	Recognisers []Recogniser
}

// Error tells what is missing and who can help: somebody who grants the
// narrowest permission that is enough.
func (e *NotPermittedError) Error() string {
	return fmt.Sprintf("%s; to have such requests approved, bind ClusterRole %s to the user or to a group of it", e.Missing(), e.Recognisers[0].Role())
}

// Missing tells what is missing.
func (e *NotPermittedError) Missing() string {
	var subresources []string
	for _, r := range e.Recognisers {
		subresources = append(subresources, "certificatesigningrequests/"+r.Name)
	}
	return fmt.Sprintf("user %q may not create %s", e.User, strings.Join(subresources, " or "))
}
