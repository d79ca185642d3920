package controllers

import "github.com/certplane/certplane/internal/controller/approve"

func addApprover(p Process, cfg Config) error {
	writer, err := p.Client(csrApproverAccount)
	if err != nil {
		return err
	}
	recorder, err := p.Recorder(csrApproverAccount)
	if err != nil {
		return err
	}
	return approve.Add(p.Manager, approve.Config{
		Client: writer, Settings: cfg.Settings.Approval, Events: recorder, Metrics: p.Metrics,
	})
}
