package dns

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// checkPersistent looks for the record of a dns-persist-01 challenge, which the
// owner of the domain writes once.
func (s *Solver) checkPersistent(ctx context.Context, task solver.Task, p plan) (solver.Found, error) {
	want := permission{account: p.account, issuers: rfc8555.IssuerDomains(task.Challenge.Spec.Key), wildcard: task.Challenge.Spec.Wildcard, now: task.Now}
	_, j, err := s.look(ctx, p.name, func(values []string) bool { return slices.ContainsFunc(values, want.in) })
	switch {
	case err != nil:
		return solver.Found{}, err
	case !j.propagated:
		return solver.Found{}, notPropagated(task, fmt.Sprintf("%s needs a TXT record with the value %q; %s", p.name, want, j))
	}
	return s.found(j, where{}), nil
}

// permission is the permission that a record must grant (draft-ietf-acme-dns-persist-01
// section 4).
type permission struct {
	account string
	// issuers are the names of the CA, in lower case; none: any.
	issuers  []string
	wildcard bool
	now      time.Time
}

// String returns a record that grants it.
func (p permission) String() string {
	return rfc8555.PersistentRecord(p.issuers, p.account, p.wildcard)
}

// in reports whether the value of a record grants it. The grammar is that of
// CAA records (RFC 8659 section 4.2).
func (p permission) in(value string) bool {
	parts := strings.Split(value, ";")
	issuer := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(parts[0]), "."))
	if issuer == "" || len(p.issuers) > 0 && !slices.Contains(p.issuers, issuer) {
		return false
	}
	parameters := map[string]string{}
	for _, part := range parts[1:] {
		tag, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		tag = strings.ToLower(strings.TrimSpace(tag))
		if _, again := parameters[tag]; again || !ok && tag != "" {
			return false
		}
		if ok {
			parameters[tag] = strings.TrimSpace(value)
		}
	}
	return parameters["accounturi"] == p.account && p.inTime(parameters) && (!p.wildcard || strings.EqualFold(parameters["policy"], "wildcard"))
}

func (p permission) inTime(parameters map[string]string) bool {
	text, ok := parameters["persistuntil"]
	if !ok {
		return true
	}
	until, err := strconv.ParseInt(text, 10, 64)
	return err == nil && p.now.Before(time.Unix(until, 0))
}
