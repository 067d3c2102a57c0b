-- Every order, once; etl sink init makes the tables that the sink keeps its books in.
CREATE TABLE orders (
  id        bigint NOT NULL,
  customer  text NOT NULL,
  status    text NOT NULL,
  total     numeric NOT NULL,
  placed_at timestamptz NOT NULL
);
