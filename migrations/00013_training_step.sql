-- How far a training is, by one lookup.

-- +goose Up
CREATE INDEX training_metric_step ON training_metric (training, step);
