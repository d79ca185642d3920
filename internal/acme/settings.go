package acme

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClientSettings are the settings of the clients of ACME servers in the stanza
// "acme".
type ClientSettings struct {
	// allowLoopback lets Issuers name servers on loopback addresses, such as
	// https://127.0.0.1:14000/dir: ACME servers, acme-dns hosts, APIs of DNS providers and
	// name servers for updates. Users that can create Issuers can then call programs that
	// listen there. ClusterIssuers may always do so. The address that the name resolves to
	// counts, not the name. Default: false.
	AllowLoopback bool `json:"allowLoopback,omitempty"`
	// openRequests is how many requests of one account are open at a time. A larger number
	// makes orders faster, but some servers refuse it. Default: 4.
	OpenRequests int `json:"openRequests"`
	// rateLimitedFor is how long requests wait after a server has said that there
	// were too many, without saying until when. A duration such as 1h. Default:
	// 1h.
	RateLimitedFor metav1.Duration `json:"rateLimitedFor"`
	// budgetHosts are the hosts of directories whose accounts have the budgets below. An
	// order that exceeds one waits, instead of being refused by the CA. Renewals that name
	// the certificate which they replace do not count. Limits that a CA itself reports
	// count in any case. Default: [acme-v02.api.letsencrypt.org].
	BudgetHosts []string `json:"budgetHosts"`
	// newOrders is how many new orders each account may make in newOrdersPeriod. 0
	// means no limit. Default: 300.
	NewOrders int `json:"newOrders"`
	// newOrdersPeriod is the time to which newOrders applies. Default: 3h.
	NewOrdersPeriod metav1.Duration `json:"newOrdersPeriod"`
	// certificatesPerDomain is how many certificates each account gets in
	// certificatesPeriod for names of one registered domain, such as example.co.uk.
	// Those for a set of names that it has ordered before do not count. 0 means no
	// limit. Default: 50.
	CertificatesPerDomain int `json:"certificatesPerDomain"`
	// certificatesPerSet is how many certificates each account gets in
	// certificatesPeriod for exactly the same names. 0 means no limit. Default: 5.
	CertificatesPerSet int `json:"certificatesPerSet"`
	// certificatesPeriod is the time to which these two apply. Default: 168h.
	CertificatesPeriod metav1.Duration `json:"certificatesPeriod"`
	// failedAuthorizations is how many validations of one name may fail for each
	// account in failedAuthorizationsPeriod before orders with this name wait. 0
	// means no limit. Default: 5.
	FailedAuthorizations int `json:"failedAuthorizations"`
	// failedAuthorizationsPeriod is the time to which failedAuthorizations applies.
	// Default: 1h.
	FailedAuthorizationsPeriod metav1.Duration `json:"failedAuthorizationsPeriod"`
}

// letsEncrypt is the host whose limits the defaults are.
const letsEncrypt = "acme-v02.api.letsencrypt.org"

// DefaultClientSettings returns the defaults.
func DefaultClientSettings() ClientSettings {
	return ClientSettings{
		OpenRequests:    4,
		RateLimitedFor:  metav1.Duration{Duration: time.Hour},
		BudgetHosts:     []string{letsEncrypt},
		NewOrders:       300,
		NewOrdersPeriod: metav1.Duration{Duration: 3 * time.Hour},

		CertificatesPerDomain:      50,
		CertificatesPerSet:         5,
		CertificatesPeriod:         metav1.Duration{Duration: 7 * 24 * time.Hour},
		FailedAuthorizations:       5,
		FailedAuthorizationsPeriod: metav1.Duration{Duration: time.Hour},
	}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s ClientSettings) Validate() error {
	switch {
	case s.OpenRequests < 1 || s.OpenRequests > 100:
		return fmt.Errorf("acme.openRequests: %d must be 1 to 100", s.OpenRequests)
	case s.RateLimitedFor.Duration < time.Minute || s.RateLimitedFor.Duration > maxWait:
		return fmt.Errorf("acme.rateLimitedFor: %s must be 1m to %s", s.RateLimitedFor.Duration, maxWait)
	}
	for i, host := range s.BudgetHosts {
		if host == "" || host != strings.ToLower(host) || strings.ContainsAny(host, "/: ") {
			return fmt.Errorf("acme.budgetHosts[%d]: %q must be the host of a directory, such as %s", i, host, letsEncrypt)
		}
	}
	for _, budget := range []struct {
		field        string
		size         int
		periodField  string
		budgetPeriod time.Duration
	}{
		{"newOrders", s.NewOrders, "newOrdersPeriod", s.NewOrdersPeriod.Duration},
		{"certificatesPerDomain", s.CertificatesPerDomain, "certificatesPeriod", s.CertificatesPeriod.Duration},
		{"certificatesPerSet", s.CertificatesPerSet, "certificatesPeriod", s.CertificatesPeriod.Duration},
		{"failedAuthorizations", s.FailedAuthorizations, "failedAuthorizationsPeriod", s.FailedAuthorizationsPeriod.Duration},
	} {
		switch {
		case budget.size < 0:
			return fmt.Errorf("acme.%s: %d must not be negative", budget.field, budget.size)
		case budget.budgetPeriod < time.Second:
			return fmt.Errorf("acme.%s: %s must be at least 1s", budget.periodField, budget.budgetPeriod)
		}
	}
	return nil
}
