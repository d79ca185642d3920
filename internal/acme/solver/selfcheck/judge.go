package selfcheck

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/certplane/certplane/internal/acme/solver"
)

// judge decides from the views of each family of addresses. presented is how long the
// answer has been available.
//
// An ACME server that cannot connect in one family may try the other one, so
// such a failure counts for UnreachableFor. Any other failure counts always.
func judge(views []view, presented time.Duration) (solver.Found, error) {
	failed, connections, ours := 0, 0, 0
	for _, v := range views {
		if v.err == nil {
			continue
		}
		failed++
		if isConnection(v.err) {
			connections++
		}
		if isOurs(v.err) {
			ours++
		}
	}
	switch {
	case failed == 0:
		return solver.Found{}, nil
	case failed == len(views) && failed == connections:
		return solver.Found{}, &UnreachableError{describeViews(views)}
	case failed < len(views) && failed == connections && (failed == ours || presented >= UnreachableFor):
		return solver.Found{Note: describeViews(views).Error()}, nil
	default:
		return solver.Found{}, describeViews(views)
	}
}

// isOurs reports whether a connection failed because this host has no addresses of the
// family, which proves nothing about the server.
func isOurs(err error) bool {
	for _, cause := range []error{syscall.ENETUNREACH, syscall.EAFNOSUPPORT, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// describeViews returns the error of the only family, or the results of all.
func describeViews(views []view) error {
	if len(views) == 1 {
		return views[0].err
	}
	var texts []string
	for _, v := range views {
		result := "the answer is there"
		if v.err != nil {
			result = v.err.Error()
		}
		texts = append(texts, fmt.Sprintf("%s %s: %s", family(v), v.address, result))
	}
	return errors.New(strings.Join(texts, "; "))
}

func family(v view) string {
	if v.address.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// Presented returns for how long the answer to a challenge has been available.
func Presented(task solver.Task) time.Duration {
	if at := task.Challenge.Status.PresentedAt; at != nil {
		return task.Now.Sub(at.Time)
	}
	return 0
}
