package controllers

import "github.com/certplane/certplane/internal/controller/approve"

func addApprover(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(csrApproverAccount)
	if err != nil {
		return err
	}
	return approve.Add(p.Manager, approve.Config{
		Client: writer, Settings: cfg.Settings.Approval, Events: recorder, Metrics: p.Metrics,
	})
}
