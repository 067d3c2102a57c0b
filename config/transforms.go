package config

import "etl/transform"

func registerTransforms(r *Registry) {}

func decodeOperator(d Decode) func() transform.Operator { return nil }
