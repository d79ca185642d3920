//go:build !awskms

package kms

import "context"

var openAWS func(ctx context.Context, uri string) (*Key, error)
