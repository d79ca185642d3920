package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/process/duration"
)

// quotaChecks describes the usage of each quota that a request belongs to.
func quotaChecks(uses map[certpolicy.Quota]certpolicy.QuotaUse) []Check {
	var checks []Check
	for q, use := range uses {
		check := Check{"quota " + q.Policy + "/" + q.Name, Yes, fmt.Sprintf("used %d of %d in %s", use.Used, q.Certificates, duration.Format(q.Per))}
		if q.Key != "" {
			check.Message += fmt.Sprintf(", for the %s %q", q.By, q.Key)
		}
		switch {
		case use.Counted:
			check.Message += ": this request is counted"
		case !use.Again.IsZero():
			check.Result = No
			check.Message += "; another fits at " + use.Again.UTC().Format(time.RFC3339)
		}
		checks = append(checks, check)
	}
	slices.SortFunc(checks, func(a, b Check) int { return cmp.Compare(a.Name, b.Name) })
	return checks
}
