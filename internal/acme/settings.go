package acme

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClientSettings are the settings of the clients of ACME servers in the stanza
// "acme".
type ClientSettings struct {
	// openRequests is how many requests of one account are open at a time. More
	// make orders faster, and some servers refuse them. Default: 4.
	OpenRequests int `json:"openRequests"`
	// rateLimitedFor is how long requests wait after a server has said that there
	// were too many, without saying until when. A duration such as 1h. Default:
	// 1h.
	RateLimitedFor metav1.Duration `json:"rateLimitedFor"`
	// newOrders is how many new orders each account of Let's Encrypt may make in
	// newOrdersPeriod; further ones wait. Renewals that the CA has suggested do
	// not count. Other servers have no such limit. 0 means no limit. Default:
	// 300.
	NewOrders int `json:"newOrders"`
	// newOrdersPeriod is the time to which newOrders applies. Default: 3h.
	NewOrdersPeriod metav1.Duration `json:"newOrdersPeriod"`
}

// DefaultClientSettings returns the defaults.
func DefaultClientSettings() ClientSettings {
	return ClientSettings{
		OpenRequests:    4,
		RateLimitedFor:  metav1.Duration{Duration: time.Hour},
		NewOrders:       300,
		NewOrdersPeriod: metav1.Duration{Duration: 3 * time.Hour},
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
	case s.NewOrders < 0:
		return fmt.Errorf("acme.newOrders: %d must not be negative", s.NewOrders)
	case s.NewOrdersPeriod.Duration < time.Second:
		return fmt.Errorf("acme.newOrdersPeriod: %s must be at least 1s", s.NewOrdersPeriod.Duration)
	}
	return nil
}
