package controllermanager

import "github.com/certplane/certplane/internal/controller/approve"

func addApprover(a Actor, cfg Config) error {
	return approve.Add(a.Manager, approve.Config{Client: a.Client, Settings: cfg.Settings.Approval, Events: a.Events, Metrics: a.Metrics})
}
